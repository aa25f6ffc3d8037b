"""What jobs read, hold and refuse by their layout: quickly, and with what helps."""

import re
from functools import partial
from itertools import combinations
from types import SimpleNamespace

import dask
import numpy as np
import pytest
import zarr

import twom_dist as td
from tests.support.cases import cases
from tests.support.command import make, save
from tests.support.expect import first_number, raises
from tests.support.layouts import lay_out
from twom_dist.errors import MemoryLimitError, PlanError
from twom_dist.jobs import begin, budget_for_job, open_job
from twom_dist.kernels.cpu import buffers
from twom_dist.moduli import residue_system
from twom_dist.plan import SMALLEST_TILE, Cluster, tiling
from twom_dist.plan.memory import INTERPRETER_BYTES, SPILL, MemoryBudget
from twom_dist.plan.waves import cut_triangle
from twom_dist.tiles.interpreter import Found

MIB = 2**20
ROUTINES = pytest.mark.parametrize("routine", ["gemm", "herk"])


def make_layout(shape, mib, workers=1, tile=None, **options):
    """Lay out a product in the memory of workers, as a job does."""
    cluster = Cluster(workers, 1, MemoryBudget(mib * MIB, "job"))
    return lay_out(shape, "c16", cluster, tile=tile, **options)


def refuse(*args, **options):
    """Return the refusal."""
    with raises(MemoryLimitError, "memory") as caught:
        make_layout(*args, **options)
    return caught.value


# --- what is refused, and what helps --------------------------------------------------


@ROUTINES
@cases("tile", [None, 1, 512])
def test_a_smaller_tile_is_no_advice_where_the_process_takes_all(routine, tile):
    assert 450 * MIB * SPILL < INTERPRETER_BYTES
    shape = (300,) * 3 if tile == 1 else (500,) * 3
    remedy = refuse(shape, 450, tile=tile, routine=routine).remedy
    assert "tiles of" not in remedy
    assert "instead" not in remedy
    least = first_number(remedy)
    assert make_layout(shape, least, tile=tile, routine=routine)
    refuse(shape, int(0.95 * least), tile=tile, routine=routine)


@ROUTINES
@cases(("mib", "tile"), [(600, 2048), (1024, 2048), (1024, 4096)])
def test_every_way_out_that_is_named_is_one(routine, mib, tile):
    again = partial(make_layout, (20000,) * 3, routine=routine)
    remedy = refuse((20000,) * 3, mib, 4, tile=tile, routine=routine).remedy
    if smaller := re.search(r"use tiles of (\d+)", remedy):
        assert again(mib, 4, tile=int(smaller[1]))
    if fewer := re.search(r"start (\d+) workers? of (\d+) MiB", remedy):
        count, each = map(int, fewer.groups())
        assert count * each == mib * 4
        assert again(each, count, tile=tile)
    assert smaller or fewer


@cases("chunks", [(1, 1, 1), (500, 500, 500)])
def test_the_smallest_tiles_are_cut_along_k_before_they_are_refused(chunks):
    shape = 3000, 3000, 2500
    long, short = (make_layout(shape, mib, 2, chunks=chunks) for mib in (560, 530))
    assert long.tile_shape[2] > short.tile_shape[2]
    remedy = refuse(shape, 515, 2, chunks=chunks).remedy
    smaller = re.search(r"use tiles of (\d+)", remedy)
    assert make_layout(shape, 515, 2, tile=int(smaller[1]), chunks=chunks)


@ROUTINES
def test_the_advice_of_a_refusal_is_enough_where_tasks_read(routine):
    shape = 640, 640, 240_000
    refused = refuse(shape, 510, tile=640, routine=routine)
    least = first_number(refused.remedy)
    assert make_layout(shape, least, tile=640, routine=routine).streams
    # No other way out is named, since even those that lower the need are not enough.
    assert "tiles" not in refused.remedy
    assert refuse(shape, 510, tile=320, routine=routine).needed < refused.needed


def test_numbers_of_tiles_are_refused_before_they_are_cut(monkeypatch):
    class TakenError(Exception):
        """Raised where tiles are cut."""

    def cut_sizes(length, tile):
        raise TakenError

    def refuse_tiles(shape, tile):
        with raises(PlanError, "many-tiles") as caught:
            make_layout(shape, 2000, tile=tile)
        return caught.value

    monkeypatch.setattr(tiling, "cut_sizes", cut_sizes)
    assert "50,331,648" in refuse_tiles((4096,) * 3, 1).problem
    # Still too many: but a tile as large as those that are chosen is never refused.
    assert first_number(refuse_tiles((1, 10**9, 1), 3).remedy) == SMALLEST_TILE
    for shape, most in (
        ((10**5, 10**4, 10**4), tiling.MANY_TILES),
        ((4096,) * 3, 3 * 64**2),  # as many as there are of 64
    ):
        monkeypatch.setattr(tiling, "MANY_TILES", most)
        least = first_number(refuse_tiles(shape, 1).remedy)
        assert 1 < least < SMALLEST_TILE
        refuse_tiles(shape, least - 1)
        with pytest.raises(TakenError):
            make_layout(shape, 2000, tile=least)


def test_a_wave_beyond_one_that_does_not_fit_is_found():
    fitting = {(1, 1), (3, 1), (3, 3), (5, 1), (5, 3)}
    shape = 500, 300, 100
    choose = tiling._choose_wave
    assert choose(5, 3, shape, lambda *wave: wave in fitting) == (5, 3)
    fitting.remove((5, 3))
    assert choose(5, 3, shape, lambda *wave: wave in fitting) == (3, 3)


# --- budgets --------------------------------------------------------------------------


def test_the_least_limit_is_enough_and_no_mebibyte_more():
    """dask writes to disk at 0.7 of the limit with the process, at 0.6 of tiles."""
    for kind in ("product", "job", "device"):
        for stretched in (False, True):
            for tiles in (1, MIB, 12345678, 10**10):
                of = partial(MemoryBudget, kind=kind, stretched=stretched)
                least = of().least_limit(tiles)
                assert of(least - MIB).tile_bytes <= tiles <= of(least).tile_bytes + 1
    for pause, share in ((0.8, 0.6), (0.4, 0.3)):
        budget = MemoryBudget(kind="job", pause=pause)
        assert budget.least_limit(10**12) == pytest.approx(10**12 / share, rel=1e-5)
    budget = MemoryBudget(kind="job", taken_bytes=700 * MIB)
    assert budget.least_limit(70 * MIB) == 1100 * MIB


@cases(("pause", "counted"), [(0.4, 0.4), (False, 0.8)])
def test_the_fullest_worker_and_the_earliest_pause_count(pause, counted):
    workers = {"a": (700 * MIB, 0.8), "b": (100 * MIB, pause)}
    client = SimpleNamespace(run=lambda function, on_error: workers)
    budget = budget_for_job(Cluster(2, 1, MemoryBudget(1024 * MIB)), client).memory
    assert (budget.taken_bytes, budget.pause) == (700 * MIB, counted)


def test_what_a_worker_keeps_for_the_next_product_is_its_own(monkeypatch):
    """The setting of the client says nothing of it."""
    # Other tests have left memory that would be taken first.
    monkeypatch.setattr(buffers, "kept", buffers.KeptBuffers())
    measured = SimpleNamespace(
        monitor=SimpleNamespace(get_process_memory=lambda: 700 * MIB),
        memory_manager=SimpleNamespace(memory_pause_fraction=0.8),
    )
    client = SimpleNamespace(run=lambda look, on_error: {"a": look(measured)})
    with dask.config.set({"twom-dist.reuse-bytes": 64 * MIB}):
        buffers.empty((32 * MIB,), np.uint8)
        taken = budget_for_job(Cluster(), client).memory.taken_bytes
    assert taken == 700 * MIB - 32 * MIB


# --- tiles, waves, reads --------------------------------------------------------------


def test_tiles_are_even_and_fit_the_worker_grid():
    gib = 1024 * MIB
    for shape, cluster, options, tile in (
        ((3072,) * 3, Cluster(4), {}, (768, 768, 1536)),
        # Those of devices are larger.
        ((32768,) * 3, Cluster(4, 1, MemoryBudget(64 * gib)), {}, (2048,) * 3),
        (
            *((32768,) * 3, Cluster(4, 1, MemoryBudget(64 * gib))),
            *({"engine": "cuda"}, (4096,) * 3),
        ),
    ):
        assert lay_out(shape, "c16", cluster, **options).tile_shape == tile
    for shape, counts in (
        ((3072, 3072, 3072), (3, 4, 2)),
        # Workers share k where one tile holds all of C.
        ((300, 500, 90_000), (1, 1, 44)),
        ((10, 0, 5), (1, 1, 1)),
    ):
        grid = lay_out(shape, "c16", Cluster(2)).grid
        assert (len(grid.m), len(grid.n), len(grid.k)) == counts
    # Waves are few, and keep every thread at work.
    workers = Cluster(4, 2, MemoryBudget(16 * gib))
    waves = lay_out((40_000, 30_000, 20_000), "c16", workers).waves
    assert 1 < len(waves) < 30
    assert waves[0].size >= 8


@cases(
    ("options", "shape"),
    [({}, (1024, 1024, 2000)), ({"op_a": "T", "op_b": "T"}, (1000, 1000, 2048))],
)
def test_tiles_do_not_cut_the_chunks_of_the_files(here, options, shape):
    for name, chunks in {"A.zarr": (512, 100), "B.zarr": (500, 256)}.items():
        given = {"shape": (4000, 4000), "dtype": "c16", "overwrite": True}
        zarr.create_array(name, chunks=chunks, **given)
    job = open_job(td.gemm.ask("A.zarr", "B.zarr", **options), "C.zarr")
    assert job.lay_out(Cluster(4, 1), tile=64).tile_shape == (64, 64, 64)
    assert job.lay_out(Cluster(4, 1)).tile_shape == shape


def test_tiles_are_whole_chunks_where_memory_permits(here):
    for name in ("A.zarr", "B.zarr"):
        zarr.create_array(name, shape=(9000, 9000), dtype="c16", chunks=(3000, 3000))
    small = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "1 GiB"}
    cut = td.plan(td.multiply_files, "A.zarr", "B.zarr", num_moduli=8, **small)
    # No tile has parts of two chunks.
    assert all(3000 % side == 0 for side in cut.tile_shape)
    assert cut.chunk_reads > 1
    assert cut.uncut_bytes > 2**30
    assert "rechunk the files, or give workers" in str(cut)
    enough = {**small, "memory_limit": cut.uncut_bytes}
    whole = td.plan(td.multiply_files, "A.zarr", "B.zarr", num_moduli=8, **enough)
    assert (whole.chunk_reads, whole.tile_shape) == (1, (3000, 3000, 3000))
    assert "rechunk" not in str(whole)


@pytest.mark.parametrize("routine", ["gemm", "herk", "her2k"])
@cases("shape", [(640, 640, 240_000), (3000, 3000, 3000)])
def test_any_shape_is_laid_out_in_the_memory_of_a_few_tiles(routine, shape):
    cluster = Cluster(2, 1, MemoryBudget(512 * MIB))
    layout = lay_out(shape, "c16", cluster, routine=routine)
    plan = layout.plan(layout.waves[0], cluster)
    assert plan.peak_worker_bytes <= 512 * MIB
    assert plan.streams == layout.streams == ("read by the tasks" in str(plan))
    # Where all fits nothing is read twice, nor held if it is not looked at first and C
    # is a single tile.
    m, n, k = shape
    for moduli in (None, 16):
        options = {"routine": routine, "num_moduli": moduli}
        whole = lay_out(shape, "c16", Cluster(), **options)
        assert whole.streams == (moduli is not None and whole.num_computed == 1)
        assert whole.reads == (n * k if routine != "gemm" else m * k + k * n)
        assert layout.reads >= whole.reads


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


# --- triangles ------------------------------------------------------------------------


@pytest.mark.parametrize("upper", [False, True])
@cases(("count", "width"), [(1, 1), (5, 5), (7, 2), (9, 4), (8, 3)])
def test_waves_cover_a_triangle_once(count, width, upper):
    covered = []
    for wave in cut_triangle(count, width, upper=upper):
        covered += wave.cells
        assert wave.size == len(wave.cells)
        assert len({index for cell in wave.cells for index in cell}) <= width
    # All on the diagonal, and of each pair beside it one.
    pairs = [*combinations(range(count), 2), *((i, i) for i in range(count))]
    assert sorted(covered if upper else [(j, i) for i, j in covered]) == sorted(pairs)


def test_tiles_that_are_mirrored_in_writing_take_no_memory():
    cluster = Cluster(4, 1, MemoryBudget(2**31))
    full, lower = (
        lay_out((28_000, 28_000, 1000), "c16", cluster, routine="syr2k", uplo=uplo)
        for uplo in ("full", "lower")
    )
    assert (full.grid, full.waves) == (lower.grid, lower.waves)
    assert len(full.waves) > 1
    nt = len(full.grid.n)
    assert full.num_computed == lower.num_computed == nt * (nt + 1) // 2
    plans = [x.plan(x.waves[0], cluster) for x in (full, lower)]
    assert plans[0].peak_worker_bytes == plans[1].peak_worker_bytes
    # There is room for encoded tiles.
    assert not any(full.plan(wave, cluster).cramped for wave in full.waves)
