"""The sources of this repository, each read and parsed once."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.places import ROOT


def find_files(*patterns: str) -> dict[str, Path]:
    """List files by their place in the repository."""
    found = (path for x in patterns for path in ROOT.glob(x) if path.is_file())
    return {path.relative_to(ROOT).as_posix(): path for path in sorted(found)}


@cache
def read(path: Path) -> str:
    """Read a file."""
    return path.read_text("utf-8")


@cache
def parse(path: Path) -> ast.Module:
    """Parse a file."""
    return ast.parse(read(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """List all nodes of a file."""
    return tuple(ast.walk(parse(path)))


def package() -> Iterator[tuple[Path, tuple[ast.AST, ...]]]:
    """Yield the modules of the package, by their place in it, with their nodes."""
    for path in find_files("twom_dist/**/*.py").values():
        yield path.relative_to(ROOT / "twom_dist"), nodes(path)
