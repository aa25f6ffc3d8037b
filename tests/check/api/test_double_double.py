"""Products to twice the digits of double precision, as sums of two arrays."""

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.families import hard_pairs
from tests.support.oracle import ExactProduct, exact
from tests.support.strategies import random_matrix
from twom_dist.errors import AccuracyError

U = 2.0**-106


def largest_error(pair, a, b) -> float:
    """Largest |dC| / (|A| |B|), in units of 2^-106."""
    truth, (high, low) = ExactProduct(a, b), pair
    difference = truth.value - exact(high) - exact(low)
    return float(difference.ratio(truth.magnitudes).max()) / U


def test_the_error_is_that_of_twice_the_digits():
    taken = 0
    for _, (a, b) in hard_pairs(30, most=12, seed=5):
        if a.dtype.char not in "dD" or 0 in (*a.shape, *b.shape):
            continue
        try:
            high, low = td.twofold.gemm(a, b)
        except AccuracyError:
            continue  # beyond all residue systems
        taken += 1
        assert same_bits(high + low, high)
        assert largest_error((high, low), a, b) <= np.sqrt(a.shape[1]) + 2
    assert taken >= 8


def test_given_accuracies_are_kept():
    a, b = random_matrix(5, 30, seed=1), random_matrix(30, 4, seed=2)
    a[:, ::3] *= 1e-9
    norms = np.linalg.norm(a, axis=1).max() * np.linalg.norm(b, axis=0).max()
    for accuracy, eps in (("normwise", U), (1e-25, 1e-25)):
        pair = td.twofold.gemm(a, b, accuracy=accuracy)
        difference = ExactProduct(a, b).value - exact(pair[0]) - exact(pair[1])
        assert abs(difference.rounded()).max() <= (np.sqrt(30) * eps + 2 * U) * norms
    # Moduli that lose nothing: all is exact but for the sum of two doubles.
    pair = td.twofold.gemm(a, b, num_moduli=40, method="hybrid")
    assert largest_error(pair, a, b) <= 2
    # Sums that fit are exact.
    a, b = np.random.default_rng(3).integers(-(2**50), 2**50, (2, 7, 7)).astype(float)
    pair = td.twofold.gemm(a, b)
    assert largest_error(pair, a, b) == 0
    assert pair[1].any()


@cases("routine", ["herk", "syrk", "her2k", "syr2k"])
def test_updates_are_symmetric_and_as_exact_as_products(routine):
    a, b = random_matrix(9, 12, phi=2.0, seed=1), random_matrix(9, 12, seed=2)
    b[3] = -1.5 * a[3]  # whose sums cancel on the way
    given = (a, b) if "2k" in routine else (a,)
    found = getattr(td.twofold, routine)(*given)
    sign = 1 - 2 * routine.startswith("her")
    for word in found:
        assert (word.real == word.real.T).all()
        assert (word.imag == sign * word.imag.T).all()
    for uplo, kept in (("lower", np.tril), ("upper", np.triu)):
        part = getattr(td.twofold, routine)(*given, uplo=uplo)
        assert all(map(same_bits, part, map(kept, found)))
    turned = given[-1].conj().T if sign < 0 else given[-1].T
    truth, sizes = exact(a) @ exact(turned), abs(a) @ abs(turned)
    high, low = found
    difference = truth - exact(high) - exact(low)
    if "2k" in routine:
        other = exact(b) @ exact(a.conj().T if sign < 0 else a.T)
        difference, sizes = difference - (exact(0 * a[:, :9]) - other), sizes + sizes.T
    assert (abs(difference.rounded()) <= (np.sqrt(12) + 4) * U * sizes).all()
    assert same_bits(high + low, high)


@cases("routine", ["gemm", "her2k"])
def test_what_is_not_finite_has_no_low_word(routine):
    a, b = random_matrix(5, 4, seed=1), random_matrix(5, 4, seed=2)
    a[1, 2], b[3, 0], a[4], b[4] = np.nan, np.inf, 1e200, 1e200
    b = b if routine == "her2k" else b.T
    given = {"num_moduli": 30, "method": "hybrid"}
    high, low = getattr(td.twofold, routine)(a, b, **given)
    single = getattr(td, routine)(a, b, **given)
    assert same_bits(np.isfinite(high), np.isfinite(single))
    assert not low[~np.isfinite(high)].any()
    assert np.isfinite(low).all()
    assert low[0, 0] != 0


def test_the_high_word_is_the_nearest_where_the_low_one_is_subnormal():
    a = np.array([[1 + 2.0**-52, 0.9 * 2.0**-53]])
    high, low = td.twofold.gemm(a, np.full((2, 1), 2.0**-1021))
    assert high + low == high
    rng = np.random.default_rng(0)
    for scale in range(-530, -480, 5):
        x, y = np.ldexp(rng.standard_normal((2, 20, 9)), scale)
        pair = td.twofold.gemm(x, y.T)
        assert (pair[0] + pair[1] == pair[0]).all()
        assert same_bits(pair, td.twofold.gemm(x, y.T, engine="reference"))


def test_there_is_no_native_product_to_fall_back_to():
    far = np.array([[1.0, 1e-100], [1e-100, 1.0]])
    for x in (far, da.from_array(far)):
        with raises(AccuracyError, "accuracy-out-of-reach"):
            dask.compute(*td.twofold.gemm(x, far[::-1], equilibrate=False))
    for x in (np.zeros((2, 0)), da.zeros((2, 0))):
        found = dask.compute(*td.twofold.gemm(x, np.zeros((0, 3))))
        assert [word.tolist() for word in found] == [[[0] * 3] * 2] * 2


def test_plans_and_explanations_know_both_words():
    a = random_matrix(8, 40)
    one, two = td.explain(td.gemm, a, a.T), td.explain(td.twofold.gemm, a, a.T)
    assert two.num_moduli > one.num_moduli
    assert two.error_bound == pytest.approx(one.error_bound * 2.0**-53)
    plans = [td.plan(x, (64, 64), (64, 64)) for x in (td.gemm, td.twofold.gemm)]
    assert plans[1].memory.outputs == 2 * plans[0].memory.outputs
    far = np.ldexp(1.0, np.arange(-500, 500, 40)).reshape(5, 5)
    for options in ({"num_moduli": 20}, {"accuracy": "normwise"}):
        td.twofold.gemm(far, far, **options)
        assert td.explain(td.twofold.gemm, far, far, **options).rho >= 1
