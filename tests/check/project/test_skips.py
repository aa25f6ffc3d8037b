"""Skips are counted against a list."""

from tests.support import skips
from tests.support.skips import Skips, find_unexpected


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
