"""Docstrings and comments: who does what, with the subject first."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.support.places import ROOT

NOT_FIRST = re.compile(r"(What|Whether|Who|How|Of|As in)\b")
NOT_ABSENT = re.compile(r"\b(is|are) no\b")
OF = re.compile(r"[#/]+:?\s*Of\b")


def find_files(*patterns: str) -> list[str]:
    return sorted(
        path.relative_to(ROOT).as_posix()
        for pattern in patterns
        for path in ROOT.glob(pattern)
    )


PYTHON = find_files(
    "twom_dist/**/*.py", "benchmarks/**/*.py", "cluster/**/*.py", "docs/*.py"
)
OTHERS = find_files(
    "twom_dist/**/*.cu", "twom_dist/**/*.cuh", "twom_dist/*.yaml", "cluster/*.s[bh]*"
)


def find_docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of all docstrings, those of attributes as well."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def find_comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def find_faults(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each text that breaks a rule."""
    for line, text in find_docstrings(source):
        first = text.strip().partition("\n")[0]
        if NOT_FIRST.match(first) or NOT_ABSENT.search(first):
            yield line, first
    for line, text in find_comments(source):
        if OF.match(text):
            yield line, text


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('"""Whether it rains."""', [1]),
        ('def f():\n    """There is no rain."""', [2]),
        ('class A:\n    x: int\n    """Of the sky."""', [3]),
        ("x = 1  # Of all days.\n# Offers stay.", [1]),
        ('"""Official sky.\n\nThere is no rain.\n"""', []),
    ],
)
def test_faults_are_found(source, lines):
    assert [line for line, _ in find_faults(source)] == lines


def test_docstrings_and_comments_begin_with_their_subject():
    assert [
        f"{name}:{line}: {text}"
        for name in PYTHON
        for line, text in find_faults((ROOT / name).read_text("utf-8"))
    ] == []


def test_comments_of_other_files_begin_with_their_subject():
    assert [
        f"{name}:{number}: {line.strip()}"
        for name in OTHERS
        for number, line in enumerate(
            (ROOT / name).read_text("utf-8").splitlines(), start=1
        )
        if OF.match(line.strip())
    ] == []
