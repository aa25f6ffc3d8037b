"""Mutants are changes of lines that are there; `python -m tests.mutants` tries them."""

import pytest

from tests.mutants.__main__ import Mutant, read_rooms
from tests.support.places import ROOT

ROOMS = read_rooms()


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_each_changes_one_line_that_is_there(room):
    for path in room.tests:
        assert (ROOT / path).exists(), path
    for mutant in room.mutants:
        text = (ROOT / mutant.file).read_text("utf-8")
        assert text.count(mutant.old) == 1, str(mutant)
        assert mutant.old != mutant.new
        assert "\n" not in mutant.old, str(mutant)
        assert mutant.why


def test_no_two_are_alike():
    found = [(x.file, x.old, x.new) for room in ROOMS for x in room.mutants]
    assert len({*found}) == len(found)


def test_a_mutant_says_what_would_go_wrong():
    mutant = Mutant("tiles", "a.py", "x  + y", "x - y", "wrong sums")
    assert str(mutant) == "a.py: 'x + y' -> 'x - y': wrong sums"
