"""Jobs on files: the bits of the routine in memory.

Files of every shape, dtype and format are among the ways of one property
(`tests/check/run/test_same_bits.py`); here workers hold little of them.
"""

from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem

import twom_dist as td
from tests.support.cases import cases
from tests.support.command import contents, make, read, save
from tests.support.expect import raises, same_bits
from tests.support.integers import random_integers
from tests.support.jobs import compute_in, stop_after
from tests.support.stored import left_behind
from twom_dist.errors import ArgumentError, PlanError, StoreError
from twom_dist.jobs import open_job
from twom_dist.store import read_vector

N, K = 45, 60
W = np.linspace(-3, 5, K)
# Not looked for, which takes longest.
GIVEN = {"num_moduli": 14}


@pytest.fixture
def memory(here):
    """Forget what is stored at URLs of this process."""
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture
def files(here):
    """Store A, B, C0 and weights, and A^T and B^T for the other op; by their names."""
    a, b, c = make(N, K, 1), make(N, K, 2), make(N, N, 3)
    # Columns are shifted against one another.
    b *= 2.0 ** (np.arange(K) % 20)
    matrices = {"A.zarr": a, "B.npy": b, "C0.h5": c, "AT.npy": a.T, "BT.zarr": b.T}
    for name, values in matrices.items():
        save(name, values)
    np.save("w.npy", W)
    return matrices | {"w.npy": W}


AB, TURNED = ("A.zarr", "B.npy"), ("AT.npy", "BT.zarr")
ADDED = {"alpha": 2, "beta": -0.5, "C": "C0.h5"}
CASES = [
    ("gemm", AB, {"op_b": "C", "accuracy": "componentwise", **ADDED}),
    ("gemm", AB, {"op_b": "T", "diag": "w.npy", **GIVEN}),
    ("gemm", TURNED, {"op_a": "T", "alpha": 2 - 1j, "accuracy": 1e-6}),
    ("gemm", AB, {"op_b": "C", "equilibrate": True}),
    ("her2k", AB, {"uplo": "lower", "equilibrate": True}),
    ("herk", TURNED[:1], {"op": "C", "uplo": "lower", "diag": "w.npy"}),
    ("syrk", TURNED[1:], {"op": "T", "uplo": "upper", "alpha": 2j, **GIVEN}),
    ("syr2k", AB, {"accuracy": "componentwise", **ADDED}),
]
OUTPUTS = {"full": "C.zarr", "lower": "C.npz", "upper": "C.h5"}


@pytest.mark.parametrize("way", ["waves", "streams"])
@pytest.mark.parametrize(("routine", "paths", "options"), CASES)
def test_the_file_has_the_bits_of_the_routine(files, routine, paths, options, way):
    before, seen = contents(Path()), []
    output, routine = OUTPUTS[options.get("uplo", "full")], getattr(td, routine)
    job = open_job(routine.ask(*paths, **options), output)
    compute_in(way, job, progress=seen.append)
    whole = options | {x: files[options[x]] for x in ("C", "diag") if x in options}
    assert same_bits(read(output), routine(*(files[x] for x in paths), **whole))
    tiles = 9 if routine is td.gemm else 6
    assert [(p.done, p.tiles) for p in seen] == [(i + 1, tiles) for i in range(tiles)]
    found = contents(Path())
    assert {name: found[name] for name in before} == before
    assert left_behind() == []


# --- pairs of integers ----------------------------------------------------------------

INTEGERS = [
    ("waves", "herk", ("V.zarr",), {}),
    ("waves", "herk", ("V.npy",), {"op": "C", "uplo": "lower"}),
    ("waves", "syrk", ("memory://folder/V.zarr",), {"uplo": "upper"}),
    ("waves", "gemm", ("V.npz", "W.h5"), {"op_b": "T"}),
    ("streams", "her2k", ("W.h5", "V.zarr"), {"method": "hybrid"}),
]


@pytest.fixture
def samples(memory):
    """Store pairs of 8 and of 16 bits in every format; by the first letter."""
    v, w = (random_integers((N, K), x, pairs=True) for x in ("int8", "int16"))
    for name, values in {"V.zarr": v, "V.npy": v, "V.npz": v, "W.h5": w}.items():
        save(name, values)
    # Chunks of either part alone.
    zarr.create_array("memory://folder/V.zarr", data=v, chunks=(16, 16, 1))
    return {"V": v, "W": w}


@pytest.mark.parametrize(("way", "routine", "paths", "options"), INTEGERS)
def test_pairs_of_integers_are_matrices(samples, way, routine, paths, options):
    options, routine = {"pairs": True, **options}, getattr(td.integers, routine)
    given = [samples[Path(x).name[0]] for x in paths]
    compute_in(way, open_job(routine.ask(*paths, **options), "C.zarr"))
    assert same_bits(read("C.zarr"), routine(*given, **options))


def test_a_stopped_product_of_pairs_goes_on(samples):
    job = partial(td.rank_k_files, td.integers.herk, "V.zarr", "C.npy", pairs=True)
    stop_after(4, partial(job, chunks=8))
    assert job().resumed >= 4
    assert same_bits(np.load("C.npy"), td.integers.herk(samples["V"], pairs=True))
    source = zarr.open_array("V.zarr", mode="r+")
    source[:16, :16] = 0
    with raises(StoreError, "missing-chunks"):
        job(overwrite=True, refuse_missing=True)
    assert job(overwrite=True).missing == {"A": 1}
    assert same_bits(np.load("C.npy"), td.integers.herk(source[:], pairs=True))


# --- vectors, and what is refused -----------------------------------------------------


def test_vectors_of_every_format(here):
    np.save("row.npy", W[np.newaxis].astype(">f8"))
    np.savez("w.npz", w=W, other=W)
    with h5py.File("w.h5", "w") as file:
        file["grid/w"] = W
    zarr.save("w.zarr", W)
    zarr.open_group("g.zarr", mode="w")["w"] = W
    for path in ("row.npy", "w.npz::w", "w.h5::grid/w", "w.zarr"):
        assert same_bits(read_vector(path), W)
    for path in ("w.npz", "w.h5", "g.zarr"):
        with raises(StoreError, "no-member"):
            read_vector(path)
        with raises(StoreError, "no-such-member"):
            read_vector(f"{path}::misspelt")


@cases(
    ("code", "options"),
    [
        ("diag-complex", {"diag": W * 1j}),
        ("vector-shape", {"diag": "B.npy"}),
        ("output-is-input", {"diag": "w.npy", "output": "w.npy"}),
        ("output-is-input", {"diag": "w.h5::w", "output": "w.h5::C"}),
        *(("tile", {"chunks": x}) for x in [(3, 3), (0, 3, 3), (1.5, 3, 3), 0, "3"]),
        *(("tile", {"chunks": x}) for x in [2.5, [3], True]),
    ],
)
def test_refusals(files, code, options):
    with h5py.File("w.h5", "w") as file:
        file["w"] = W
    before = contents(Path())
    kinds = {"diag-complex": ArgumentError, "vector-shape": StoreError}
    given = {"output": "C.zarr", "overwrite": True, **options}
    with raises(kinds.get(code, PlanError), code):
        td.rank_k_files(td.herk, "A.zarr", **given)
    assert contents(Path()) == before
    (Path("w.h5")).unlink()


def test_arrays_are_no_files(here):
    a = make(40, 30, 1)
    np.save("A.npy", a)
    stored = zarr.create_array("A.zarr", data=a)
    for x in (stored, a, 3):
        with raises(ArgumentError, "not-a-path"):
            td.multiply_files("A.npy", x, "C.npy")
    for left, output in ((a, "C.npy"), ("A.npy", stored)):
        with raises(ArgumentError, "not-a-path"):
            td.rank_k_files(td.herk, left, output)
