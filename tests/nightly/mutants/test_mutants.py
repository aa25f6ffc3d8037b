"""Every mutant dies by the tests of its room, but for those that change no result."""

import pytest

from tests.mutants.__main__ import read_rooms, try_rooms


@pytest.mark.parametrize("room", read_rooms(), ids=lambda room: room.name)
def test_the_tests_of_a_room_notice_its_mutants(room):
    survivors = try_rooms([room], 1)
    assert [str(x) for x in survivors if not x.harmless] == []
