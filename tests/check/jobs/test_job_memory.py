"""What a job says when memory is not enough: quickly, and only what would help."""

import re
from functools import partial

import pytest

import twom_dist as td
from tests.support.command import make, save
from tests.support.expect import first_number, raises
from tests.support.layouts import lay_out
from twom_dist.errors import MemoryLimitError, PlanError
from twom_dist.jobs import begin
from twom_dist.jobs.job import open_job
from twom_dist.moduli import residue_system
from twom_dist.plan import SMALLEST_TILE, Cluster, tiling
from twom_dist.plan.memory import INTERPRETER_BYTES, SPILL, MemoryBudget
from twom_dist.tiles.interpreter import Found

MIB = 2**20


def make_layout(shape, mib, workers=1, tile=None, **options):
    """Lay out a product in the memory of workers, as a job does."""
    cluster = Cluster(workers, 1, MemoryBudget(mib * MIB, "job"))
    return lay_out(shape, "c16", cluster, tile=tile, **options)


def refuse(*args, **options):
    """Remedy of the refusal."""
    with raises(MemoryLimitError, "memory") as caught:
        make_layout(*args, **options)
    return caught.value.remedy


@pytest.mark.parametrize("routine", ["gemm", "herk"])
@pytest.mark.parametrize("tile", [None, 1, 512])
def test_a_smaller_tile_is_no_advice_where_the_process_takes_all(routine, tile):
    assert 450 * MIB * SPILL < INTERPRETER_BYTES
    remedy = refuse((500, 500, 500), 450, tile=tile, routine=routine)
    assert "tiles of" not in remedy
    assert "instead" not in remedy
    least = first_number(remedy)
    assert make_layout((500, 500, 500), least, tile=tile, routine=routine)
    with raises(MemoryLimitError, "memory"):
        make_layout((500, 500, 500), int(0.95 * least), tile=tile, routine=routine)


@pytest.mark.parametrize(
    ("mib", "workers", "tile"), [(600, 4, 2048), (1024, 4, 2048), (1024, 4, 4096)]
)
@pytest.mark.parametrize("routine", ["gemm", "herk"])
def test_every_way_out_that_is_named_is_one(routine, mib, workers, tile):
    make = partial(make_layout, (20000,) * 3, routine=routine)
    remedy = refuse((20000,) * 3, mib, workers, tile=tile, routine=routine)
    if smaller := re.search(r"use tiles of (\d+)", remedy):
        assert make(mib, workers, tile=int(smaller[1]))
    if fewer := re.search(r"start (\d+) workers? of (\d+) MiB", remedy):
        count, each = map(int, fewer.groups())
        assert count * each == mib * workers
        assert make(each, count, tile=tile)
    assert smaller or fewer


@pytest.mark.parametrize("chunks", [(1, 1, 1), (500, 500, 500)])
def test_the_smallest_tiles_are_cut_along_k_before_they_are_refused(chunks):
    shape = 3000, 3000, 2500
    lengths = [
        make_layout(shape, mib, 2, chunks=chunks).tile_shape[2] for mib in (560, 530)
    ]
    assert lengths[0] > lengths[1]
    smaller = re.search(r"use tiles of (\d+)", refuse(shape, 515, 2, chunks=chunks))
    assert make_layout(shape, 515, 2, tile=int(smaller[1]), chunks=chunks)


def test_absurd_numbers_of_tiles_are_refused_before_they_are_cut(monkeypatch):
    monkeypatch.setattr(tiling, "cut_sizes", pytest.fail)
    with raises(PlanError, "many-tiles") as caught:
        make_layout((4096,) * 3, 450, tile=1)
    assert "50,331,648" in caught.value.problem
    with raises(PlanError, "many-tiles") as caught:
        make_layout((1, 10**9, 1), 2000, tile=3)
    # Still too many: but a tile as large as those that are chosen is never refused.
    assert first_number(caught.value.remedy) == SMALLEST_TILE


def test_the_least_size_of_tiles_that_is_advised_is_the_least_that_is_taken(
    monkeypatch,
):
    class TakenError(Exception):
        """Raised where tiles are cut."""

    def cut_sizes(length, tile):
        raise TakenError

    monkeypatch.setattr(tiling, "cut_sizes", cut_sizes)
    for shape, most in (
        ((10**5, 10**4, 10**4), tiling.MANY_TILES),
        ((4096,) * 3, 3 * 64**2),  # as many as there are of 64
    ):
        monkeypatch.setattr(tiling, "MANY_TILES", most)
        with raises(PlanError, "many-tiles") as caught:
            make_layout(shape, 2000, tile=1)
        least = first_number(caught.value.remedy)
        assert 1 < least < SMALLEST_TILE
        with raises(PlanError, "many-tiles"):
            make_layout(shape, 2000, tile=least - 1)
        with pytest.raises(TakenError):
            make_layout(shape, 2000, tile=least)


def test_what_cannot_fit_is_told_from_the_least_wave(monkeypatch):
    shapes = []
    plan = tiling.make_plan

    def note(spec, chunks, *args, **options):
        shapes.append((len(chunks[0]), len(chunks[1])))
        return plan(spec, chunks, *args, **options)

    monkeypatch.setattr(tiling, "make_plan", note)
    with raises(MemoryLimitError, "memory"):
        lay_out((5000,) * 3, "c16", Cluster(1, 1, MemoryBudget(4096)), tile=16)
    # The other plan is of all tiles, whose inputs are read again for each.
    assert set(shapes) == {(1, 1), (313, 313)}


def test_a_wave_beyond_one_that_does_not_fit_is_found():
    fitting = {(1, 1), (3, 1), (3, 3), (5, 1), (5, 3)}
    shape = 500, 300, 100
    choose = tiling._choose_wave
    assert choose(5, 3, shape, lambda *wave: wave in fitting) == (5, 3)
    fitting.remove((5, 3))
    assert choose(5, 3, shape, lambda *wave: wave in fitting) == (3, 3)


def test_the_rule_that_asks_for_more_is_the_one_that_counts():
    """dask writes to disk at 0.7 of the limit with the process, at 0.6 of tiles."""
    for pause, share in ((0.8, 0.6), (0.4, 0.3)):
        budget = MemoryBudget(kind="job", pause=pause)
        assert budget.least_limit(10**12) == pytest.approx(10**12 / share, rel=1e-5)
    budget = MemoryBudget(kind="job", taken_bytes=700 * MIB)
    assert budget.least_limit(70 * MIB) == 1100 * MIB


@pytest.mark.parametrize("kind", ["product", "job", "device"])
@pytest.mark.parametrize("stretched", [False, True])
def test_the_least_limit_is_enough_and_no_mebibyte_more(kind, stretched):
    for tiles in (1, MIB, 12345678, 10**10):
        budget = MemoryBudget(kind=kind, stretched=stretched)
        least = budget.least_limit(tiles)
        enough = MemoryBudget(least, kind, stretched=stretched)
        less = MemoryBudget(least - MIB, kind, stretched=stretched)
        assert less.tile_bytes <= tiles <= enough.tile_bytes + 1


def test_more_moduli_than_expected_take_smaller_waves(here):
    for name in ("A.npy", "B.npy"):
        save(name, make(512, 512, 1))
    job = open_job(td.gemm.ask("A.npy", "B.npy"), "C.zarr")
    with begin(job, Cluster(memory=MemoryBudget(530 * MIB)), 64) as run:
        system = residue_system("hybrid", 45)
        after = run.settle(Found(run.layout.spec.settle(system, 2.0**90)))
        assert after.layout.spec.system is system
        assert after.layout.tile_shape == run.layout.tile_shape
        assert len(after.layout.waves) > len(run.layout.waves)
        assert after.layout.num_computed == run.layout.num_computed
