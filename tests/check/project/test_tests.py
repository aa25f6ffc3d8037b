"""What tests promise: skips that are expected, mutants, and to start nothing."""

import os
import re
import socket
import subprocess
from threading import Thread

import pytest

from tests.mutants.__main__ import read_rooms
from tests.support import skips
from tests.support.cases import cases
from tests.support.places import ROOT
from tests.support.skips import EXPECTED, Skips, find_unexpected
from tests.support.sources import find_files, read

# What skips where it cannot run instructions of x86.
OF_X86 = r"^from tests.support.(amx import|cpu_ways import WAYS)"
REFUSED = pytest.fail.Exception


def test_what_is_missing_is_skipped_so_often_and_nothing_else():
    has, misses = (lambda: False), (lambda: True)
    expected = (
        Skips("tests/gpu/", 2, misses),
        Skips("tests/a.py", 1, misses),
        Skips("tests/b.py", 5, has),
    )
    allowed = ["tests/gpu/a.py", "tests/gpu/b.py::test", "tests/a.py::test[1]"]
    assert find_unexpected(allowed, expected) == []
    more = ["tests/a.py::test[2]", "tests/b.py::test", "tests/c.py::test"]
    found = find_unexpected(allowed + more, expected)
    assert found == ["tests/a.py", "tests/b.py", "tests/c.py"]


def test_files_that_are_named_are_there_and_those_of_x86_may_skip_elsewhere():
    for expected in EXPECTED:
        assert (ROOT / expected.where).exists(), expected.where
    is_missing = skips.is_not_x86_linux
    allowed = {x.where for x in EXPECTED if x.is_missing is is_missing}
    files = find_files("tests/check/**/test_*.py").items()
    found = {x for x, path in files if re.search(OF_X86, read(path), re.MULTILINE)}
    assert len(found) > 1
    assert found <= allowed


@cases("room", read_rooms())
def test_each_mutant_changes_one_line_that_is_there(room):
    for path in room.tests:
        assert (ROOT / path).exists(), path
    for mutant in room.mutants:
        assert read(ROOT / mutant.file).count(mutant.old) == 1, str(mutant)
        assert mutant.old != mutant.new
        assert "\n" not in mutant.old, str(mutant)
        assert mutant.why


def test_no_two_mutants_are_alike():
    found = [(x.file, x.old, x.new) for room in read_rooms() for x in room.mutants]
    assert len({*found}) == len(found)


def test_what_starts_or_listens_fails_in_threads_as_well():
    caught = []

    def start():
        with pytest.raises(REFUSED, match="tests/run"):
            subprocess.run(["true"], check=True)
        caught.append(True)

    start()
    thread = Thread(target=start)
    thread.start()
    thread.join()
    assert len(caught) == 2
    with pytest.raises(REFUSED, match="tests/run"):
        os.fork()
    with socket.socket() as own, pytest.raises(REFUSED, match="tests/run"):
        own.bind(("127.0.0.1", 0))
