"""Source files: each about one subject, and short."""

import ast

from tests.support.places import ROOT

MAX_LINES = 350
MEANINGLESS_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}

FILES = {
    path.relative_to(ROOT).as_posix(): path
    for folder in ("twom_dist", "tests", "benchmarks")
    for suffix in ("*.py", "*.cu", "*.cuh")
    for path in (ROOT / folder).rglob(suffix)
}


def test_files_are_named_by_their_subject():
    assert [x for x, path in FILES.items() if path.stem in MEANINGLESS_NAMES] == []


def test_files_are_short():
    lengths = {
        x: len(path.read_text("utf-8").splitlines()) for x, path in FILES.items()
    }
    assert {x: lines for x, lines in lengths.items() if lines > MAX_LINES} == {}


def test_no_function_hands_on_its_locals():
    """What is handed on by name can be followed by name."""
    calls = {
        f"{x}:{node.lineno}"
        for x, path in FILES.items()
        if x.startswith("twom_dist/") and path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "locals"
    }
    assert calls == set()
