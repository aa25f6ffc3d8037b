"""Inputs whose chunks tasks make: the same bits, in the memory of a few chunks."""

import weakref
from itertools import chain
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from dask.utils import format_bytes

import twom_dist as td
from tests.support.advice import memory_for
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.strategies import random_matrix
from twom_dist.errors import MemoryLimitError, PlanError, StoreError
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.engine import CpuEngine
from twom_dist.run.making import only_reads
from twom_dist.run.sources import make_source

N, K = 30, 70
CHUNKS = (13, 17), (9, 9, 1, 20, 11, 20)
BOTH = {"op_b": "C"}


@pytest.fixture(autouse=True)
def stream():
    """Inputs that are made again, whatever the memory."""
    with inputs("stream"):
        yield


def inputs(how):
    return dask.config.set({"twom-dist.inputs": how})


def made(x, chunks=CHUNKS):
    return da.from_array(x, chunks=chunks).map_blocks(np.copy)


def computed(lazily):
    return dask.compute(lazily, scheduler="sync")[0]


def is_streamed(product):
    tasks = {key[0] for key in product.dask if isinstance(key, tuple)}
    return not any(name.startswith("copy") for name in tasks)


def test_native_products_integers_and_twice_the_digits():
    a = random_matrix(N, K)
    i = np.random.default_rng(1).integers(-100, 100, (N, K)).astype(np.int8)
    close = computed(td.gemm(made(a), made(a), op_b="C", method="blas"))
    np.testing.assert_allclose(close, a @ a.conj().T, rtol=1e-13)
    exact = computed(td.integers.gemm(made(i), made(i), op_b="T"))
    assert (exact == i.astype(int) @ i.T.astype(int)).all()
    # Their blocks are looked at as they are made.
    assert (computed(td.integers.syrk(made(i.astype(float)))) == exact).all()
    components = [computed(x) for x in td.twofold.her2k(made(a), made(a))]
    assert same_bits(np.array(components), np.array(td.twofold.her2k(a, a)))


def changing(x, at):
    """Chunks of which one differs from its reading number `at` on."""
    readings = {}

    def make(block, block_info):
        place = tuple(block_info[0]["chunk-location"])
        readings[place] = readings.get(place, 0) + 1
        return block + 1 if place == (1, 2) and readings[place] >= at else block

    return da.from_array(x, chunks=CHUNKS).map_blocks(make, dtype=x.dtype), readings


def test_a_source_that_gives_other_data_is_an_error():
    a, i = random_matrix(N, K), np.ones((N, K), np.int8)
    _, readings = x, counts = changing(a, 1000)
    assert same_bits(computed(td.herk(x)), td.herk(a))
    # All but the first reading are compared: of the look, of tiles and of their twins.
    for at in range(2, max(readings.values()) + 1):
        x, counts = changing(a, at)
        with raises(StoreError, "input-changed") as caught:
            computed(td.herk(x))
        assert "(1, 2)" in str(caught.value)
        assert counts[1, 2] == at
    # And by products that nothing is looked at for.
    for x, at, call in (
        (a, 2, lambda x: td.gemm(x, x, method="blas", **BOTH)),
        (a, 2, lambda x: td.gemm(x, x, num_moduli=15, **BOTH)),
        (i, 3, td.integers.syrk),
    ):
        with raises(StoreError, "input-changed"):
            computed(call(changing(x, at)[0]))


def test_fingerprints_are_the_same_in_every_process():
    x = np.arange(6.0).reshape(2, 3)
    found = [get_engine(name).fingerprint(x) for name in ("reference", "cpu")]
    assert found == [15398962082832747800, 2687781999851911852]


def test_a_task_holds_one_chunk_of_each_side():
    a = random_matrix(N, K)
    alive, most = set(), []

    def make(block):
        found = block.copy()
        alive.add(id(found))
        weakref.finalize(found, alive.discard, id(found))
        most.append(len(alive))
        return found

    x = da.from_array(a, chunks=(10, 5)).map_blocks(make, meta=a[:0, :0])
    assert same_bits(computed(td.gemm(x, x, **BOTH)), td.gemm(a, a, **BOTH))
    assert max(most) == 2


@cases("routine", [td.gemm, td.herk])
def test_a_sweep_makes_and_encodes_each_tile_once(routine):
    a, made, encoded, encode = random_matrix(60, 50), [], [], CpuEngine.encode

    def make(block):
        made.append(block.shape)
        return block.copy()

    def count(*args, **options):
        encoded.append(args)
        return encode(*args, **options)

    x = da.from_array(a, chunks=10).map_blocks(make, meta=a[:0, :0])
    given = (x, x) if routine is td.gemm else (x,)
    options = {"num_moduli": 15, **(BOTH if routine is td.gemm else {})}
    sweeps = [x for own in td.plan(routine, *given, **options).grid.sweeps for x in own]
    expected = routine(*(a for _ in given), **options)
    with mock.patch.object(CpuEngine, "encode", count):
        assert same_bits(computed(routine(*given, **options)), expected)
    rows = sum(len({*chain.from_iterable(cells)}) for cells in sweeps)
    # And once more to be scaled.
    assert len(made) == 5 * (rows + 6 * len(given))
    both = sum(len({*x}) for cells in sweeps for x in zip(*cells, strict=True))
    assert 4 <= len(sweeps) < 36 / len(given)
    assert len(encoded) == 5 * (both if routine is td.gemm else rows)


@cases("routine", [td.gemm, td.herk])
def test_what_is_held_does_not_grow_with_k(routine):
    """Octaves of all rows of a strip would be a sixteenth of the matrix."""
    held, octaves, now = [], CpuEngine.octaves, 0

    def count(nbytes):
        nonlocal now
        now += nbytes
        held[-1] = max(held[-1], now)

    def take(*given):
        found = octaves(*given)
        count(found.nbytes)
        weakref.finalize(found, count, -found.nbytes)
        return found

    for tiles in (6, 18):
        held.append(0)
        x = made(random_matrix(N, 20 * tiles, phi=5.0, seed=tiles), (10, 20))
        with mock.patch.object(CpuEngine, "octaves", staticmethod(take)):
            computed(td.gemm(x, x, **BOTH) if routine is td.gemm else td.herk(x))
    assert 0 < held[1] == held[0]


def test_what_is_held_is_chosen_by_memory():
    x = da.random.default_rng(1).standard_normal((200, 4000), chunks=(100, 200))
    large, small = (memory_for(size) for size in (2**26, 2**23))
    x = x.astype(complex)
    with inputs("auto"):
        assert not is_streamed(td.herk(made(np.ones((N, K)))))
        assert not td.plan(td.herk, x, memory_limit=large).streams
        assert td.plan(td.herk, x, memory_limit=small).streams
        with raises(MemoryLimitError, "memory"):
            td.plan(td.herk, x.persist(), memory_limit=small)
    with inputs("hold"), raises(MemoryLimitError, "memory"):
        td.plan(td.herk, x, memory_limit=small)


def test_chunks_that_cannot_be_made_by_tasks_of_their_own_are_held():
    x = made(random_matrix(N, K))
    with dask.annotate(workers=["a"]):
        bound = x.map_blocks(np.negative)
    large = da.from_array(np.ones((100, 100)), chunks=100)
    few = made(random_matrix(N, K), (5, 70))
    in_memory = x.persist(scheduler="sync"), large, large.map_blocks(np.copy)
    for y in (*in_memory, bound, x.rechunk((1, 70)), few - few.mean(axis=0)):
        with raises(PlanError, "inputs-held"):
            td.herk(y)
        with inputs("auto"):
            td.herk(y)
    # What all chunks share is held: of an array in memory nobody is sent all.
    w = np.arange(1.0, N + 1)
    weighed = [x * w[:, None], x * np.sqrt(da.from_array(w, chunks=13))[:, None]]
    for y in (x, x.T, x.rechunk({1: 70}), 2 * x[:, :50].conj() + 1, *weighed):
        found = td.herk(y)
        assert is_streamed(found)
        assert same_bits(computed(found), td.herk(computed(y)))


def stored(folder, shape, chunks, compressors=None):
    import zarr

    given = {"shape": shape, "chunks": chunks, "compressors": compressors}
    return zarr.create_array(folder / f"{compressors}.zarr", dtype=complex, **given)


def reads(x):
    return only_reads(make_source(x), x)


def test_reads_of_local_files_that_are_not_compressed_are_known_to_be_cheap(tmp_path):
    import h5py
    import zarr

    a, small = stored(tmp_path, (100, 100), (50, 50)), da.from_array
    x, path = da.from_zarr(a), da.from_zarr(str(a.store.root))
    with h5py.File(tmp_path / "A.h5", "w") as file:
        member = small(file.create_dataset("A", (100, 100), "f8"), chunks=50)
        for y in (x, path, member, x.T, x[10:], x.rechunk(100), x.astype("complex64")):
            assert reads(y)
    away = zarr.open_array(zarr.storage.WrapperStore(a.store), mode="r")
    once = dask.delayed(np.ones)((100, 100))
    # Whatever else a graph calls may take a second, or answer otherwise next time.
    for y in (
        da.from_zarr(stored(tmp_path, (100, 100), (50, 50), "auto")),
        da.from_zarr(away),
        small(a, chunks=10),  # a stored chunk is read whole
        x.map_blocks(np.copy),
        x.map_blocks(lambda block: block),
        da.matmul(x, x),
        da.ones((100, 100), chunks=50),
        da.from_delayed(once, (100, 100), complex),
    ):
        assert not reads(y)


def test_inputs_are_made_again_where_that_is_cheap_beside_the_products(tmp_path):
    large, small = (
        da.from_zarr(stored(tmp_path / str(n), (n, n), (chunk, chunk)))
        for n, chunk in ((40_000, 4000), (1000, 250))
    )

    def plan(x, how="auto", **options):
        with inputs(how):
            return td.plan(td.gemm, x, x, n_workers=2, **options)

    found, held, streamed = plan(large), plan(large, "hold"), plan(large, "stream")
    assert found.streams
    assert found.grid == streamed.grid
    (note,) = found.notes
    assert format_bytes(held.peak_worker_bytes) in note
    assert found.peak_worker_bytes < held.peak_worker_bytes / 2
    (other,) = held.notes
    assert format_bytes(found.peak_worker_bytes) in other
    # Little is multiplied for each chunk, by one way or another; or nobody knows.
    assert not plan(small).streams
    assert not plan(large, num_moduli=2, accuracy=None).streams
    assert not plan(large.map_blocks(np.copy)).streams


def test_measured_choices_stay(tmp_path):
    """Those of the table in docs/decisions/0028-inputs-are-made-again.md."""
    square, tall = (
        da.from_zarr(stored(tmp_path / name, shape, chunks))
        for name, shape, chunks in (
            ("square", (6144, 6144), (1024, 1024)),
            ("tall", (160_000, 320), (8000, 320)),
        )
    )
    rng = da.random.default_rng(1)
    drawn = rng.standard_normal((3072, 3072), chunks=512).astype(complex)
    with inputs("auto"):
        assert td.plan(td.gemm, square, square, n_workers=2).streams
        assert not td.plan(td.herk, tall, op="C", n_workers=2).streams
        assert not td.plan(td.gemm, drawn, drawn, n_workers=2).streams
