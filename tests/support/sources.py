"""The sources of this repository, each read and parsed once."""

import ast
from functools import cache

from tests.support.places import ROOT


def find_files(*patterns):
    found = (path for x in patterns for path in ROOT.glob(x) if path.is_file())
    return {path.relative_to(ROOT).as_posix(): path for path in sorted(found)}


@cache
def read(path):
    return path.read_text("utf-8")


@cache
def parse(path):
    return ast.parse(read(path))


@cache
def nodes(path):
    return tuple(ast.walk(parse(path)))


def package():
    """Yield the modules of the package, by their place in it, with their nodes."""
    for path in find_files("twom_dist/**/*.py").values():
        yield path.relative_to(ROOT / "twom_dist"), nodes(path)
