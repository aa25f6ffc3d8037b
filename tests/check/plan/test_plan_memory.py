"""Memory of workers: the advice is enough, the cache gives way, GPUs take sweeps."""

import json
from functools import partial
from itertools import chain

import dask
import dask.array as da
import numpy as np
import zarr
from dask.utils import format_bytes

import twom_dist as td
from tests.support.advice import MIB, SIDE, advised, memory_for, plan, room
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import MemoryLimitError

ROUTINES = [td.gemm, td.herk, td.syrk, td.her2k, td.syr2k]
HOLD, STREAM = ({"twom-dist.inputs": x} for x in ("hold", "stream"))


@cases("inputs", [("hold", 1), ("hold", 150), ("auto", 1)])
@cases("options", [{}, {"beta": 2}, {"method": "blas"}])
@cases("routine", ROUTINES)
def test_following_the_advice_is_enough(routine, options, inputs):
    how, given = inputs
    with dask.config.set({"twom-dist.inputs": how}):
        needed = advised(routine, given * MIB, **options)
        found = plan(routine, needed, **options)
    assert found.streams == (how == "auto")
    assert found.least_worker_bytes <= room(needed)


@cases(("chunks", "mib", "told"), [(3000, 1000, True), (500, 600, False)])
def test_smaller_chunks_are_named_where_these_fit(chunks, mib, told):
    make = partial(td.plan, td.herk, (SIDE, SIDE), n_workers=2)
    with dask.config.set(HOLD):
        with raises(MemoryLimitError, "memory") as caught:
            make(chunks=chunks, memory_limit=mib * MIB)
        assert (f"use chunks smaller than {chunks}" in caught.value.remedy) == told
        assert not told or make(chunks=256, memory_limit=mib * MIB)


def test_inputs_are_held_if_they_fit_beside_the_result():
    # Everything fits; the result; only its tiles on their way.
    for size, streams, whole in [(400, 0, True), (300, 1, True), (100, 1, False)]:
        memory = memory_for(int(0.8 * size * MIB))
        found, usable = plan(td.gemm, memory), room(memory)
        assert found.streams == streams
        assert (found.peak_worker_bytes <= usable) == whole
        assert found.least_worker_bytes <= usable
        assert str(found).startswith("does not fit") == (not whole)


def test_plans_of_lazy_inputs_say_what_making_these_again_would_take():
    x = da.ones((1024, 1024), chunks=128)
    found = td.plan(td.gemm, x, x + 1)
    with dask.config.set(STREAM):
        other = td.plan(td.gemm, x, x + 1)
    assert other.peak_worker_bytes < found.peak_worker_bytes / 2
    (note,) = found.notes
    assert format_bytes(other.peak_worker_bytes) in note
    assert note.count("A 2 times, B 4 times") == note.count("scaled") == 1
    # Arrays in memory cannot be made again.
    held = da.from_array(np.ones((1024, 1024)), chunks=128)
    assert td.plan(td.gemm, held, held).notes == other.notes == ()


@cases("routine", ROUTINES)
def test_encoded_tiles_give_way_before_anything_is_refused(routine):
    with dask.config.set(HOLD):
        needed = room(advised(routine, 40 * MIB))
        found = [plan(routine, memory_for(needed * x // 10)) for x in (10, 20, 60)]
    kept = [x.cache_bytes for x in found]
    assert kept[0] < 0.05 * needed < kept[1] <= kept[2]
    # They take a share of what is held.
    held = found[2].memory.inputs + found[2].memory.outputs
    assert kept[2] == int(0.45 * held)
    assert plan(routine, None).cache_bytes == 2**31


@cases(("routine", "sums"), [(td.gemm, 1), (td.herk, 1), (td.her2k, 2)])
def test_sums_of_parts_are_held_until_they_are_added(routine, sums):
    shapes = [(1000, 100_000)] * (1 if routine is td.herk else 2)
    given = {"op_b": "C"} if routine is td.gemm else {}
    given |= {"chunks": 1000, "memory_limit": "4 GiB"}
    with dask.config.set(STREAM):
        whole, cut = (td.plan(routine, *shapes, n_workers=x, **given) for x in (1, 4))
    assert (len(whole.grid.parts), len(cut.grid.parts)) == (1, 4)
    waiting = 1000**2 * sums * cut.spec.system.num_products
    assert cut.memory.temporaries == whole.memory.temporaries + waiting


def test_a_plan_of_files_minds_their_chunks(call):
    for name, shape, chunks in (
        ("A", (8000, 8000), (700, 700)),
        ("long", (300, 60_000), (300, 2000)),
    ):
        # Nothing is written but what they are.
        zarr.create_array(f"{name}.zarr", shape=shape, chunks=chunks, dtype="c16")
    flags = ("--n-workers", "4", "--memory-limit", str(1600 * MIB), "--json")
    code, out, _ = call("plan", "gemm", "A.zarr", "A.zarr", *flags)
    assert code == 0
    workers = {"n_workers": 4, "memory_limit": 1600 * MIB}
    make = partial(td.plan, td.multiply_files)
    same = make("A.zarr", "A.zarr", "C.zarr", **workers)
    assert json.loads(same.to_json()) == json.loads(out)
    assert same.tile_shape[2] % 700 == 0
    assert same.waves > 1
    # A shape has no chunks to be cut.
    assert make("A.zarr", (8000, 8000), **workers).tile_shape[2] % 700 == 0
    alone = make("A.zarr", "A.zarr", routine=td.zgemm, alpha=2)
    assert (alone.n_workers, alone.spec.alpha) == (1, 2)
    # Tiles that do not fit lose half of k first.
    workers = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 600 * MIB}
    assert make(*["long.zarr"] * 2, op_b="C", **workers).tile_shape == (300, 300, 1000)
    with raises(MemoryLimitError, "many-waves"):
        shape = 300_000, 300_000
        make(shape, shape, dtype="c16", n_workers=2, memory_limit=480 * MIB)


def on_gpus(routine, n, workers, tile, limit=None, **options):
    """Plan a square product on GPUs, whose pools have so many GiB."""
    shapes = [(n, n)] * (1 if routine == "herk" else 2)
    given = {"n_workers": workers, "threads_per_worker": 2, "chunks": tile}
    given |= {"memory_limit": None if limit is None else int(limit * 2**30)}
    given |= {"engine": "cuda", "dtype": "complex128"} | options
    return td.plan(getattr(td, routine), *shapes, **given)


@cases("limit", [71, 126])  # an H100 and an H200
@cases("routine", ["gemm", "herk"])
def test_the_headline_product_fits_on_eight_gpus(routine, limit):
    found = on_gpus(routine, 65536, 8, 8192, limit)
    assert found.memory.total <= limit * 2**30 * 0.8
    rows, columns = found.spec.sweep
    # Tiles of A and B are encoded for several tiles of C: one side's are kept.
    assert rows * columns >= 2
    kept = rows if routine == "herk" else min(rows, columns) + 1
    assert found.cache_bytes >= kept * 2 * 2**30
    assert 4 <= found.panels <= 8
    # A task for each panel of a sweep, for each tile of C, and few for the look.
    steps = 8**3 // (rows * columns)
    assert routine == "herk" or found.num_tasks <= steps + 8**2 + 100


@cases("n", [131072, 262144])
def test_many_gpus_take_few_tasks(n):
    workers, tiles = n // 2048, n // 8192
    found = on_gpus("gemm", n, workers, 8192, 125)
    grid = found.grid
    # Several tiles along k are multiplied by a task, and rows are analysed whole.
    assert found.panels <= tiles // 2
    assert (len(grid.layers), grid.strips) == (1, ((0, tiles),))
    steps = sum(map(len, grid.sweeps)) * (found.panels - 1)
    assert found.num_tasks <= steps + tiles**2 + 7 * tiles + workers
    assert found.memory.inputs >= tiles * 2**30
    with dask.config.set({"twom-dist.panel-bytes": 2**31}):
        assert on_gpus("gemm", n, workers, 8192, 125).panels == tiles
    # A worker cannot hold a long row.
    tall = {"n_workers": 64, "chunks": 8192, "memory_limit": 125 * 2**30}
    long = td.plan(td.gemm, (8192, 2**20), (2**20, 8192), engine="cuda", **tall)
    assert len(long.grid.strips) >= 32


def test_a_turn_has_all_tiles_of_a_worker_where_they_fit():
    assert on_gpus("gemm", 65536, 8, 8192, 126).spec.sweep == (4, 2)
    sweeps = [on_gpus("gemm", 65536, 8, 8192, x).spec.sweep for x in range(60, 126, 4)]
    sizes = [rows * columns for rows, columns in sweeps]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    # Two layers move less, and have room for sweeps of eight tiles.
    found = on_gpus("herk", 131072, 16, 8192, 125)
    assert (found.layers, max(map(len, chain(*found.grid.sweeps)))) == (1, 10)
    # One of two workers has more than half of nine.
    rows, columns = on_gpus("gemm", 3 * 8192, 2, 8192).spec.sweep
    assert 2 * rows * columns >= 9
