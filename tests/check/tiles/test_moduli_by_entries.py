"""Moduli from the data: never worse than NumPy, and what is told of them."""

import warnings
from functools import partial
from math import sqrt

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.families import hard_pairs
from tests.support.hidden import largest_errors
from tests.support.strategies import random_matrix
from twom_dist.errors import AccuracyWarning
from twom_dist.store import open_matrix


@pytest.mark.parametrize("seed", range(2))
def test_the_default_is_within_sqrt_k_or_as_good_as_numpy(seed):
    for name, (a, b) in hard_pairs(120, 40, seed):
        found, native = largest_errors(a, b, td.gemm(a, b), a @ b)
        assert found <= max(2 * native, sqrt(a.shape[1])), name
        assert found <= sqrt(a.shape[1]) + 1, name


@cases(("phi", "most"), [(0, 16), (0.5, 17), (1, 17), (2, 21), (4, 24)])
def test_not_many_more_moduli_are_taken_than_needed(phi, most):
    a, b = (random_matrix(100, 100, "complex128", phi, seed) for seed in (1, 2))
    taken = td.explain(td.gemm, a, b).num_moduli
    assert taken <= most
    # Six fewer are worse than NumPy.
    fewer = td.gemm(a, b, num_moduli=taken - 6, method="hybrid")
    found, native = largest_errors(a, b, fewer, a @ b)
    assert found > max(2 * native, 10)


def test_beyond_all_moduli_the_product_is_native_and_told():
    tiny = 2.0**-400
    a, b = np.array([[1.0, tiny], [1, 1]]), np.array([[tiny, 1.0], [1, 1]])
    for call in (td.gemm, td.dgemm):
        with pytest.warns(AccuracyWarning, match="native") as told:
            found = call(a, b, equilibrate=False)
        assert told[0].filename == __file__
        assert same_bits(found, a @ b)
    explained = td.explain(td.gemm, a, b, equilibrate=False)
    assert (explained.method, explained.num_moduli) == ("blas", 0)
    assert "native product" in str(explained)
    given = td.explain(td.gemm, a, b, num_moduli=12)
    assert (given.num_moduli, given.decided_by) == (12, "beyond")
    lazy = td.gemm(*(da.from_array(x, chunks=1) for x in (a, b)), equilibrate=False)
    with pytest.warns(AccuracyWarning, match="how the matrices are cut") as told:
        assert np.allclose(lazy.compute(scheduler="sync"), a @ b)
    assert [x.filename for x in told] == [__file__]


@pytest.mark.filterwarnings("ignore::twom_dist.errors.AccuracyWarning")
@cases(("dtype", "smallest"), [("float32", 1e-25), ("complex64", 1e-25j)])
def test_what_stands_in_for_single_precision_multiplies_in_double(dtype, smallest):
    largest, alpha = 1e20, 1e-10
    a = np.array([[largest, smallest], [smallest, largest]], dtype)
    c = np.full((2, 2), 3, dtype)
    close = partial(pytest.approx, rel=8 * float(np.finfo(dtype).eps))
    assert td.explain(td.gemm, a, a.T, alpha=alpha).method == "blas"
    expected = (alpha * largest) * largest, 2 * (alpha * largest) * smallest
    for chunks in (None, (1, 1), (2, 1), (1, 2)):
        x, y = a, a.T
        if chunks:
            x, y = (
                da.from_array(x, chunks=chunks),
                da.from_array(y, chunks=chunks[::-1]),
            )
        found = np.asarray(td.gemm(x, y, alpha=alpha))
        assert (found[0, 0], found[0, 1]) == tuple(map(close, expected))
        added = np.asarray(td.gemm(x, y, C=c, alpha=alpha, beta=2))
        assert added[0, 0] == close(expected[0])
    a[0, 0] = np.inf
    assert not np.isfinite(td.gemm(a, a.T)[0, 0])


@cases("bits", [40, 60, 64, 100, 140])
def test_single_precision_has_no_more_range_than_its_octaves(bits):
    half = 2.0 ** (bits // 2)
    a, b = np.array([[half, 1.1 / half], [1.3, 1.7]]), [[0, 1.9], [1.234567, 1.1]]
    a, b = a.astype("f4"), np.array(b, "f4")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = td.gemm(a, b)
    exact = float(a[0, 1]) * float(b[1, 0])
    assert abs(found[0, 0] - exact) <= 3 * 2.0**-24 * exact
    assert bool(told) == (bits > 61)


def test_finite_entries_beside_an_inf_keep_their_signs():
    s = 2.0**-600
    a, b = np.array([[1e308, np.inf], [1, 1 / s]]), np.array([[1.0, 1], [-s, s]])
    assert td.gemm(a, b)[0].tolist() == [-np.inf, np.inf]
    a, b = np.array([[np.inf, 1e-300], [1, 1 / s]]), np.array([[1, 1], [np.inf, s]])
    assert td.gemm(a, b)[0].tolist() == [np.inf, np.inf]
    # In another tile they stay finite.
    big, a, b = 2.0**100, np.ones((2, 4)), np.ones((4, 1))
    a[0], b[:, 0] = [big, 1 / big] * 2, [1 / big, big] * 2
    a[1, 0], a[1, 3] = np.inf, -(2.0**1000)
    whole = td.gemm(a, b)
    assert whole[1, 0] == np.inf
    lazy = td.gemm(da.from_array(a, chunks=2), da.from_array(b, chunks=(2, 1)))
    assert same_bits(lazy.compute(scheduler="sync"), whole)


def test_given_moduli_are_taken_and_nothing_is_equilibrated():
    a, b = (random_matrix(20, 20, "complex128", 4, seed) for seed in (1, 2))
    for asked in ({"num_moduli": 16}, {"accuracy": "normwise"}, {"accuracy": 1e-9}):
        found = td.explain(td.gemm, a * 10.0 ** np.arange(20), b, **asked)
        assert found.equilibrated == 0
        assert found.relative_to == "||a_i|| ||b_j||"
        assert found.num_moduli == td.plan(td.gemm, a, b, **asked).num_moduli


def test_files_are_explained_and_jobs_keep_what_they_found(here):
    a = random_matrix(40, 30, "complex128", 2, 1)
    np.save("A.npy", a)
    expected = td.explain(td.gemm, a, a, op_b="C")
    assert td.explain(td.gemm, "A.npy", "A.npy", op_b="C") == expected
    summary = td.multiply_files("A.npy", "A.npy", "C.zarr", op_b="C", chunks=16)
    assert summary.explanation == expected
    kept = open_matrix("C.zarr").provenance()["accuracy"]
    assert (kept["rho"], kept["num_moduli"]) == (expected.rho, expected.num_moduli)
