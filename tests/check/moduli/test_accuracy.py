"""Accuracy: names to moduli, and promises against exactly known errors."""

from math import floor, isqrt, sqrt

import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.oracle import ExactProduct, exact
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine
from twom_dist.moduli import residue_system, scaling_rule
from twom_dist.moduli.accuracy import (
    componentwise_system,
    fewest_systems,
    largest_ratio,
    quantisation_bound,
)
from twom_dist.moduli.scaling import smallest_num_moduli
from twom_dist.moduli.selection import log2_product, two_m_moduli

U = 2.0**-53
METHODS = ("2m", "3m", "4m", "hybrid")
N = 48


def plan(k, dtype="complex128", **options):
    return td.plan(td.gemm, (9, k), (k, 9), dtype=dtype, chunks=2**26, **options)


# Moduli of "componentwise" and of "normwise".
NAMED = {
    ("2m", "complex128"): (16, 15),
    ("3m", "complex128"): (15, 14),
    ("4m", "complex128"): (15, 14),
    ("hybrid", "complex128"): (16, 15),
    ("2m", "float64"): (15, 14),
    ("2m", "complex64"): (8, 7),
    ("3m", "complex64"): (8, 7),
    ("2m", "float32"): (8, 7),
}


@cases(("case", "counts"), NAMED.items())
def test_named_accuracies(case, counts):
    method, dtype = case
    for accuracy, count in zip(("componentwise", "normwise"), counts, strict=True):
        found = plan(100, dtype, method=method, accuracy=accuracy)
        assert found.num_moduli == count
        assert found.method == ("real" if dtype.startswith("float") else method)
    assert plan(100, dtype, method=method).num_moduli == counts[0]


@cases(("eps", "bits"), [(0.5, 6), (2.0**-20, 44), (2.0**-70, 144)])
def test_float_targets_need_these_bits(eps, bits):
    count = plan(10, accuracy=eps).num_moduli
    moduli = two_m_moduli()[:count]
    assert log2_product(moduli[:-1]) < bits <= log2_product(moduli)
    if bits < 60:
        assert plan(10, "complex64", accuracy=eps).num_moduli == count


@cases(("method", "u"), [("2m", U), ("real", U), ("2m", 2.0**-24)])
@cases("k", [1, 40, 1000, 10**6])
def test_the_fewest_systems_suffice_up_to_their_ratio(method, u, k):
    (first, low), (second, high) = fewest_systems(method, k, u)
    assert componentwise_system(method, k, 1.0, u) is first
    assert second.num_moduli == first.num_moduli + 1
    for system, most in ((first, low), (second, high)):
        assert most == largest_ratio(system, k, u)
        assert quantisation_bound(system, k) * sqrt(most) <= sqrt(k) * u
        assert componentwise_system(method, k, most, u) is system
        assert componentwise_system(method, k, most * 1.01, u) is not system
    # A longer set is taken where there is one.
    if method == "2m" and u == U:
        found, hybrid = (plan(10, method=x, accuracy=1e-30) for x in ("2m", "hybrid"))
        assert found.spec.system is hybrid.spec.system
        for bits, taken in ((1, "2m"), (60, "hybrid")):
            assert componentwise_system("2m", 100, 2.0**bits, U).method == taken


@cases("dtype", DTYPES)
@cases("method", METHODS)
def test_bound_holds_for_many_small_products(dtype, method):
    rng = np.random.default_rng([ord(method[0]), len(dtype)])
    kind = method if dtype.startswith("complex") else "real"
    for seed in range(10):
        k, phi = int(rng.integers(1, 10)), float(rng.choice([0, 0.5, 1, 2, 4]))
        count = int(rng.integers(smallest_num_moduli(kind, k, 9), 23))
        A = random_matrix(2, k, dtype, phi, [seed, 3])
        B = random_matrix(k, 2, dtype, phi, [seed, 4])
        C = td.gemm(A, B, num_moduli=count, method=method)
        assert C.dtype == dtype
        bound = plan(k, dtype, method=method, num_moduli=count).error_bound
        assert ExactProduct(A, B).normwise_error(C) <= bound


def worst_error(count, k):
    """Multiply rows whose roundings all go one way, scaled to lose the most bits."""
    worst, engine = 0.0, get_engine("cpu")
    rule = scaling_rule(residue_system("2m", count), k)
    for amplitude in np.linspace(1, 2, 33):
        a = np.full((1, k), amplitude * (1 + 1j))
        largest, sums = engine.measure(a, rule.norm_bits, ("squares",))[:2]
        (s,) = engine.choose_exponents(largest, sums, rule).tolist()
        q = (floor(amplitude * 2.0**s) + 0.4999) * 2.0**-s
        a = np.full((1, k), q * (1 + 1j))
        C = td.gemm(a, a.conj().T, num_moduli=count)
        worst = max(worst, ExactProduct(a, a.conj().T).normwise_error(C))
    return worst


@cases("k", [1, 16, 64])
@cases("count", [3, 8, 10, 12])
def test_the_bound_is_sharp(count, k):
    bound = plan(k, num_moduli=count).error_bound
    assert 0.8 * bound < worst_error(count, k) <= bound
    if count == 10:
        # The promise of gemm: |dC_ij| <= sqrt(k) accuracy ||a_i|| ||b_j||.
        target = 2 ** (2 - (log2_product(two_m_moduli()[:count]) - 1e-9) / 2)
        count = plan(k, accuracy=target).num_moduli
        assert worst_error(count, k) <= sqrt(k) * target


@cases("method", METHODS)
@cases("dtype", DTYPES)
def test_normwise_grade_holds_by_the_bound_for_every_k(dtype, method):
    u = 2.0**-24 if dtype in ("float32", "complex64") else U
    for k in (t * 2**b for b in range(0, 36, 3) for t in (2, 3)):
        found = plan(k, dtype, method=method, accuracy="normwise")
        assert found.error_bound <= (sqrt(k) + 2) * u
        if k <= 2**24:
            expected = NAMED.get((method, dtype), (0, found.num_moduli))
            assert found.num_moduli == expected[1]


def longest_integers(parts, k, limit):
    """A row of integers with a norm just below the limit, one of them odd."""
    common = int(limit / sqrt(parts * k))
    row = np.full(parts * k, float(common))
    row[0] = isqrt(floor(limit**2) - (parts * k - 1) * common**2)
    row[0] -= row[0] % 2 == 0
    assert 0.999 * limit < np.linalg.norm(row) < limit
    return row.view(complex)[np.newaxis] if parts == 2 else row[np.newaxis]


@cases("k", [1, 2, 7, 50])
@cases("count", [4, 5, 6])
@cases("kind", ["2m", "3m", "real"])
def test_integers_are_exact_up_to_the_stated_norm(kind, count, k):
    system = residue_system(kind, count)
    h, d = sqrt(system.parts * k) / 2, sqrt(2 * k) * 2.0**-19
    a = longest_integers(system.parts, k, (sqrt(system.capacity) - h) / (1 + d))
    options = {"num_moduli": count} | ({"method": kind} if system.parts == 2 else {})
    for b in (a.T, a.conj().T, np.eye(k)):
        # |c| <= R^2 < 2^53.
        assert (td.gemm(a, b, **options) == (exact(a) @ exact(b)).rounded()).all()


def test_bounds_of_native_products_and_of_more_and_more_moduli():
    A, B = (random_matrix(9, 9, "complex128", 1.0, s) for s in (1, 2))
    for a, b, bound in ((A, B, 36 * U), (A.real, B.real, 9 * U)):
        found = ExactProduct(a, b).normwise_error(td.gemm(a, b, method="blas"))
        assert found <= plan(9, a.dtype, method="blas").error_bound == bound
    bounds = [plan(256, num_moduli=n).error_bound for n in range(2, 23)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] == pytest.approx(2.0**-52, rel=0.01)
    assert plan(1, "complex64", num_moduli=20).error_bound >= 2.0**-24


@cases("method", [m for m in METHODS if m != "4m"])
def test_a_number_of_moduli_names_the_system_that_an_accuracy_takes(method):
    for accuracy in 10.0 ** -np.arange(3.0, 33.0, 0.5):
        found = plan(1000, method=method, accuracy=float(accuracy))
        again = plan(1000, method=found.method, num_moduli=found.num_moduli)
        assert again.modulus_bits == found.modulus_bits
    A, B = (random_matrix(20, 20, "complex128", 3.0 + s, s) for s in (1, 4))
    found = td.explain(td.gemm, A, B, method=method)
    options = {"method": found.method, "num_moduli": found.num_moduli}
    assert (td.gemm(A, B, **options) == td.gemm(A, B, method=method)).all()
