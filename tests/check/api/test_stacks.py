"""Stacks in the public routines: every matrix has the bits that it has alone."""

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.stacks import assert_each_is_as_alone, random_stack
from tests.support.strategies import DTYPES, spread_pair
from twom_dist.errors import PlanError
from twom_dist.run import lazy_stacks, stacks


def hard_stack(count: int, m: int, k: int, dtype: str) -> np.ndarray:
    """Make matrices that take different numbers of moduli, some by themselves."""
    x = random_stack((count,), m, k, dtype, 5)
    for i in range(1, count, 3):
        x[i] *= 2.0 ** np.random.default_rng(i).integers(-5, 6, (m, k))
    x[0, 1] = 0
    x[-1, 0, 0] = np.nan
    x[2, :, : k // 2] = 0
    x[2, 0] = np.roll(x[2, 0], k // 2)  # meets the others nowhere
    return x


@cases("accuracy", ["componentwise", "normwise"])
@cases("dtype", DTYPES)
def test_every_matrix_takes_its_own_moduli(dtype, accuracy):
    a, b = hard_stack(7, 5, 12, dtype), hard_stack(7, 12, 6, dtype)
    options = {"accuracy": accuracy}
    assert_each_is_as_alone(td.gemm(a, b, **options), "gemm", a, b, **options)
    found = td.syrk(a, uplo="lower", **options)
    assert_each_is_as_alone(found, "syrk", a, uplo="lower", **options)
    found = td.syr2k(a, a[::-1], **options)
    assert_each_is_as_alone(found, "syr2k", a, a[::-1], **options)


def test_moduli_are_certain_for_most_matrices(monkeypatch):
    counts = []

    def count(*given):
        found = compute(*given)
        counts.append(len(found.alone))
        return found

    compute = stacks.compute_stack
    monkeypatch.setattr(stacks, "compute_stack", count)
    a = random_stack((30,), 24, 64, "complex128", 1)
    td.herk(a)
    td.gemm(a, a, op_b="C")
    a[3] *= 10.0 ** np.arange(64)  # sums to bracket: more moduli, and equilibration
    td.herk(a)
    assert max(counts[:2]) <= 2  # next to a number of moduli more
    assert max(counts[2:]) <= 4


def test_matrices_of_every_spread_take_their_own_moduli():
    """Over rows whose cosines lie anywhere between 1 and nothing."""
    rng = np.random.default_rng(3)
    spread = rng.uniform(0, 4, (60, 1, 1))
    a = np.exp(spread * rng.standard_normal((60, 7, 40))).astype("complex128")
    ways = {td.explain(td.herk, x).closed_by for x in a}
    assert {"sums", "octaves", "pairs"} <= ways
    assert_each_is_as_alone(td.herk(a), "herk", a)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_matrices_that_spread_along_k_are_equilibrated_as_alone(dtype):
    """Too little for their moduli to be unknown, and enough to be equilibrated."""
    pairs = [
        spread_pair(5, 6, 20, decades, dtype, seed)
        for decades in (0, 0.5, 1, 1.5)
        for seed in range(4)
    ]
    a, b = map(np.array, zip(*pairs, strict=True))
    found = td.gemm(a, b)
    assert_each_is_as_alone(found, "gemm", a, b)
    shifts = [td.explain(td.gemm, *pair).equilibrated for pair in pairs]
    assert 0 < np.count_nonzero(shifts) < len(pairs)


def test_axes_in_front_broadcast(engine_name):
    a = random_stack((3, 1), 4, 5, "complex128", 1)
    b = random_stack((2,), 5, 3, "complex128", 2)
    c = random_stack((3, 2), 4, 3, "complex128", 3)
    options = {"num_moduli": 4, "beta": 2, "engine": engine_name}
    found = td.gemm(a, b, c, **options)
    assert found.shape == (3, 2, 4, 3)
    both = (np.broadcast_to(x, (3, 2, *x.shape[-2:])) for x in (a, b))
    assert_each_is_as_alone(found, "gemm", *both, c, **options)
    out = np.empty((3, 2, 4, 3), complex)
    assert td.gemm(a, b, c, out=out, **options) is out
    assert same_bits(out, found)


@pytest.mark.parametrize("largest", [512, 3])
def test_large_matrices_and_pairs_of_words_are_computed_alone(monkeypatch, largest):
    monkeypatch.setattr(stacks, "LARGEST", largest)
    a = random_stack((2, 2), 5, 6, "complex128", 1)
    assert_each_is_as_alone(td.herk(a), "herk", a)
    hi, lo = td.twofold.herk(a)
    for place in np.ndindex(2, 2):
        alone = td.twofold.herk(a[place])
        assert same_bits(hi[place], alone[0])
        assert same_bits(lo[place], alone[1])


def test_native_products_are_numpys():
    a = random_stack((3,), 4, 5, "complex128", 1)
    found = td.gemm(a, a, op_b="T", method="blas")
    assert_each_is_as_alone(found, "gemm", a, a.swapaxes(1, 2), method="blas")
    assert np.allclose(found, a @ a.swapaxes(1, 2), rtol=1e-14)


@pytest.mark.parametrize("largest", [2048, 5])
def test_lazily_with_any_chunks(monkeypatch, largest):
    """Whole matrices in a task, or a product of its own for each."""
    monkeypatch.setattr(lazy_stacks, "LARGEST_TILE", largest)
    a = random_stack((3, 2), 8, 9, "complex128", 1)
    b = random_stack((2,), 9, 4, "complex128", 2)
    c = random_stack((3, 1), 8, 4, "complex128", 3)
    lazy_a = da.from_array(a, chunks=(2, 1, 5, 4))
    lazy_b = da.from_array(b, chunks=(1, 9, 3))
    for given in ((lazy_a, lazy_b), (lazy_a, b), (a, lazy_b)):
        found = td.gemm(*given, c, beta=2)
        assert found.shape == (3, 2, 8, 4)
        assert same_bits(found.compute(scheduler="sync"), td.gemm(a, b, c, beta=2))
    found = td.herk(lazy_a, uplo="lower")
    assert same_bits(found.compute(scheduler="sync"), td.herk(a, uplo="lower"))
    found = td.twofold.gemm(lazy_a, lazy_b)
    for word, expected in zip(found, td.twofold.gemm(a, b), strict=True):
        assert same_bits(word.compute(scheduler="sync"), expected)


def test_nothing_is_computed_before_it_is_asked_for():
    def fail(block):
        raise AssertionError

    a = da.ones((4, 6, 6), chunks=(2, 3, 3)).map_blocks(fail, dtype=float)
    found = td.syrk(a)
    assert found.chunks[0] == (2, 2)
    names = {key[0].rpartition("-")[0] for key in dict(found.dask) if key[0]}
    assert "twom-stack" in names


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 2), (2, 3, 0)])
def test_stacks_of_nothing(shape):
    for a in (np.ones(shape), da.ones(shape)):
        found = np.asarray(td.syrk(a))
        assert found.shape == (shape[0], shape[1], shape[1])
        assert not found.any()


def test_what_does_not_fit_is_refused():
    a = np.ones((2, 3, 3))
    with raises(PlanError, "stack-shapes"):
        td.gemm(a, np.ones((3, 3, 3)))
    with raises(PlanError, "out"):
        td.syrk(a, out=np.ones((3, 3)))
    with raises(PlanError, "shapes"):
        td.syrk(a, np.ones((2, 4, 4)), beta=1)


@pytest.mark.parametrize("options", [{"num_moduli": 15}, {"accuracy": "normwise"}])
def test_equilibrated_with_given_moduli(options):
    spread = np.exp2(40 * np.linspace(-1, 1, 20))
    a, b = (np.abs(random_stack((3,), 20, 20, "float64", seed)) for seed in (1, 2))
    a, b, options = (
        a * spread,
        b / spread[:, np.newaxis],
        {**options, "equilibrate": True},
    )
    assert_each_is_as_alone(td.gemm(a, b, **options), "gemm", a, b, **options)


def test_rows_of_subnormal_numbers():
    a = 2.0**-1040 * np.random.default_rng(0).random((4, 20, 20))
    b = 2.0**1000 * random_stack((4,), 20, 20, "float64", 1)
    b *= np.exp(3 * np.random.default_rng(1).standard_normal(b.shape))
    options = {"accuracy": "componentwise"}
    assert_each_is_as_alone(td.gemm(a, b, **options), "gemm", a, b, **options)


def test_a_lazy_stack_of_products_without_entries():
    assert td.gemm(da.ones((2, 5, 4)), np.zeros((2, 4, 0))).compute().shape == (2, 5, 0)


def test_an_empty_array_may_be_written_to():
    out = np.zeros((3, 0, 5))
    assert td.gemm(np.ones((3, 0, 2)), np.ones((3, 2, 5)), out=out) is out


def test_a_stack_of_no_large_matrices():
    a = da.zeros((0, 2050, 3), dtype="c8", chunks=500)
    found = td.gemm(a, np.ones((3, 4), "c8"), num_moduli=9)
    assert (found.shape, found.dtype) == ((0, 2050, 4), "c8")
    assert found.compute(scheduler="sync").dtype == "c8"
