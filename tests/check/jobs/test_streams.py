"""Jobs whose tasks read their inputs themselves: the same bits, and little memory."""

import os

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases, sample
from tests.support.command import make, read
from tests.support.expect import first_number, raises
from tests.support.jobs import at, stop_after
from tests.support.layouts import lay_out
from tests.support.stored import save
from twom_dist.api.files import multiply_files, update_files
from twom_dist.errors import MemoryLimitError, StoreError
from twom_dist.plan import Cluster
from twom_dist.plan.memory import MemoryBudget
from twom_dist.store.reader import StoredMatrix

MIB = 2**20
M, K = 40, 130


@pytest.fixture
def stored(here):
    """Store A, B, C0, and A^H; a NaN in A."""
    a, b, c = make(M, K, 1), make(M, K, 2), make(M, M, 3)
    a[3, 100] = np.nan
    b *= 2.0 ** (np.arange(K) % 20)
    for name, x in (("A.zarr", a), ("B.npy", b), ("C0.h5", c), ("AH.npy", a.conj().T)):
        save(name, x)
    return a, b, c


@sample(
    ("routine", "chunks", "options"),
    [
        ("gemm", 24, {}),
        ("gemm", 100, {"accuracy": "componentwise"}),
        ("herk", 24, {}),
        ("syrk", 24, {"num_moduli": 14}),
        ("her2k", 24, {}),
        ("syr2k", 100, {"accuracy": "componentwise"}),
    ],
    [
        ("gemm", 24, {}),
        ("herk", 24, {}),
        ("syr2k", 100, {"accuracy": "componentwise"}),
    ],
)
def test_the_bits_are_those_of_the_product_in_memory(
    stored, streaming, routine, chunks, options
):
    a, b, c = stored
    function = getattr(td, routine)
    options = {"alpha": 2, "beta": -0.5, **options}
    if routine == "gemm":
        options["op_b"] = "C"
        job = (multiply_files, "A.zarr", "B.npy", "C.zarr")
        expected = td.gemm(a, b, c, **options)
    else:
        one = routine in ("herk", "syrk")
        job = (update_files, function, "A.zarr", "C.zarr")
        expected = function(*([a] if one else [a, b]), c, **options)
        options["b"] = None if one else "B.npy"
    call, *arguments = job
    call(*arguments, c="C0.h5", chunks=chunks, overwrite=True, **options)
    assert same_bits(read("C.zarr"), expected)


def test_columns_take_the_place_of_rows(stored, streaming):
    a, *_ = stored
    update_files(td.herk, "AH.npy", "H.npy", op="C", chunks=32)
    assert same_bits(read("H.npy"), td.herk(a))


def test_a_job_goes_on_where_it_was_stopped(stored, streaming):
    a, *_ = stored

    def job(**options):
        return update_files(td.herk, "A.zarr", "H.zarr", chunks=8, **options)

    stop_after(4, job)
    assert job().resumed >= 4
    assert same_bits(read("H.zarr"), td.herk(a))


def test_a_tile_on_the_diagonal_is_read_once(stored, streaming, monkeypatch):
    read_region, reads = StoredMatrix.__getitem__, []

    def count(self, index):
        reads.append(index)
        return read_region(self, index)

    options = {"chunks": 64, "num_moduli": 14, "op": "N"}
    monkeypatch.setattr(StoredMatrix, "__getitem__", count)
    update_files(td.herk, "A.zarr", "H.npy", **options)
    steps = -(-K // 64)
    # For the largest exponents, for the sums of squares, and to multiply.
    assert len(reads) == 3 * steps


def test_a_source_that_changes_is_noticed(stored, streaming, here):
    def change():
        os.replace("other.npy", "A.npy")

    save("A.npy", stored[0])
    save("other.npy", make(M, K, 9))
    with raises(StoreError, "input-changed"):
        update_files(td.herk, "A.npy", "H.npy", chunks=8, progress=at(1, change))


@pytest.mark.parametrize("routine", ["gemm", "herk", "her2k"])
@cases("shape", [(640, 640, 240_000), (20_000, 20_000, 10**6), (3000, 3000, 3000)])
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


@pytest.mark.parametrize("routine", ["gemm", "herk"])
def test_the_advice_of_a_refusal_is_enough(routine):
    shape = 640, 640, 240_000

    def attempt(mib, tile=None):
        cluster = Cluster(1, 1, MemoryBudget(mib * MIB, "job"))
        return lay_out(shape, "c16", cluster, routine=routine, tile=tile)

    with raises(MemoryLimitError, "memory") as caught:
        attempt(510, 640)
    remedy = caught.value.remedy
    least = first_number(remedy)
    assert attempt(least, 640).streams
    # No other way out is named, since even those that lower the need are not enough.
    assert "tiles" not in remedy
    with raises(MemoryLimitError, "memory") as again:
        attempt(510, 320)
    assert again.value.needed < caught.value.needed
