"""What a job says of memory that does not do: quickly, and only what would help."""

import re
from functools import partial

import pytest

from twom_dist.cluster.limits import INTERPRETER_BYTES, SPILL
from twom_dist.errors import MemoryLimitError, PlanError
from twom_dist.jobs import layout
from twom_dist.jobs.layout import lay_out
from twom_dist.jobs.room import Room, list_smaller
from twom_dist.plan import SMALLEST_TILE, Cluster

MIB = 2**20


def make_room(shape, mib, workers=1, tile=None, **options):
    """Lay out a product in the memory of workers, as a job does."""
    make = partial(lay_out, shape, "c16", tile=tile, **options)
    room = Room(Cluster(workers, 1, mib * MIB))
    return room.lay_out(make, list_smaller(tile))


def refuse(*args, **options):
    with pytest.raises(MemoryLimitError) as caught:
        make_room(*args, **options)
    return str(caught.value)


@pytest.mark.parametrize("routine", ["gemm", "herk"])
@pytest.mark.parametrize("tile", [None, 1, 512])
def test_a_smaller_tile_is_no_advice_where_the_process_takes_all(routine, tile):
    assert 450 * MIB * SPILL < INTERPRETER_BYTES
    text = refuse((500, 500, 500), 450, tile=tile, routine=routine)
    assert text.startswith("1 worker of 450 MiB given and the fullest needs ")
    assert "tile=" not in text
    assert "fewer workers" not in text
    least = int(re.search(r"give each at least (\d+) MiB", text)[1])
    assert make_room((500, 500, 500), least, tile=tile, routine=routine)


@pytest.mark.parametrize("tile", [None, 4096])
def test_the_tile_that_is_advised_fits(tile):
    text = refuse((20000,) * 3, 600, 4, tile=tile)
    assert ", as fewer workers of a machine have, or use tile=" in text
    advised = int(re.search(r"or use tile=(\d+)$", text)[1])
    assert make_room((20000,) * 3, 600, 4, tile=advised)
    with pytest.raises(MemoryLimitError):
        make_room((20000,) * 3, 600, 4, tile=2 * advised)


def test_no_tile_is_advised_where_each_that_fits_is_absurd():
    assert "tile=" not in refuse((20000,) * 3, 500)


def test_absurd_numbers_of_tiles_are_refused_before_they_are_cut(monkeypatch):
    monkeypatch.setattr(layout, "_sizes", pytest.fail)
    with pytest.raises(PlanError, match=r"tile=1 given, which cuts .* 50,331,648 tile"):
        make_room((4096,) * 3, 450, tile=1)
    with pytest.raises(PlanError, match=r"use tile=\d+ or a larger one") as caught:
        make_room((1, 10**9, 1), 2000, tile=3)
    least = int(re.search(r"use tile=(\d+)", str(caught.value))[1])
    # Still too many: but a tile as large as those that are chosen is never refused.
    assert least == SMALLEST_TILE


def test_what_cannot_fit_is_told_from_the_least_wave(monkeypatch):
    shapes = []
    plan_wave = layout.plan_wave

    def note(routine, chunks, *args, **options):
        shapes.append((len(chunks[0]), len(chunks[1])))
        return plan_wave(routine, chunks, *args, **options)

    monkeypatch.setattr(layout, "plan_wave", note)
    with pytest.raises(MemoryLimitError):
        lay_out((5000,) * 3, "c16", Cluster(1, 1, MIB), tile=16)
    assert set(shapes) == {(1, 1)}
