"""Skips are counted against a list."""

import re

from tests.support import skips
from tests.support.places import ROOT
from tests.support.skips import EXPECTED, Skips, find_unexpected

# What skips where it cannot assemble or run instructions of x86.
OF_X86 = r"^from tests.support.(assembly|amx) import"


def test_what_is_missing_is_skipped_so_often_and_nothing_else(monkeypatch):
    has, misses = (lambda: False), (lambda: True)
    expected = (
        Skips("tests/gpu/", 2, misses),
        Skips("tests/a.py", 1, misses),
        Skips("tests/b.py", 5, has),
    )
    monkeypatch.setattr(skips, "EXPECTED", expected)
    allowed = ["tests/gpu/a.py", "tests/gpu/b.py::test", "tests/a.py::test[1]"]
    assert find_unexpected(allowed) == []
    more = ["tests/a.py::test[2]", "tests/b.py::test", "tests/c.py::test"]
    assert find_unexpected(allowed + more) == ["tests/a.py", "tests/b.py", "tests/c.py"]


def test_files_with_instructions_of_x86_may_skip_elsewhere(monkeypatch):
    monkeypatch.setattr(skips.platform, "machine", lambda: "aarch64")
    allowed = {expected.where for expected in EXPECTED if expected.is_missing()}
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("tests/check/**/test_*.py")
        if re.search(OF_X86, path.read_text(), re.MULTILINE)
    }
    assert len(found) > 4
    assert found <= allowed
