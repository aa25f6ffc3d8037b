"""The kernel that bounds all pairs, against the stages that do for any size."""

import numpy as np
import pytest

import twom_dist as td
from tests.support.cuda.on_cpu import on_cpu
from tests.support.cuda.operands import LAYOUTS
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda import pairs
from twom_dist.moduli import norm_bits
from twom_dist.tiles.look.every_pair import magnitude_bits

LIMITS = 1.0, 206.6


def bound_all(engine, operands, limit):
    """Bound the pairs of matrices of the same k, twice: launched, and by a script."""
    k = operands[0].shape[1]
    weighed = engine.weigh(operands, norm_bits(k), columns=False, rule=None)
    first, second = (weighed.largest_ratio(limit, magnitude_bits(k)) for _ in range(2))
    assert first == second
    return first


def assert_as_on_the_cpu(engine, *operands):
    """Compare what is found beyond several limits; return that of the first."""
    expected = [bound_all(get_engine("cpu"), operands, limit) for limit in LIMITS]
    assert [bound_all(engine, operands, limit) for limit in LIMITS] == expected
    return expected[0]


SHAPES = (1, 1, 1), (1, 70, 33), (65, 3, 100), (67, 130, 9)


@pytest.mark.parametrize(("dtype", "shape"), [*zip(DTYPES, SHAPES, strict=True)])
def test_bounds_of_every_shape(engine, dtype, shape):
    m, n, k = shape
    x, y = (random_matrix(t, k, dtype, 2.0, seed) for seed, t in enumerate((m, n)))
    assert_as_on_the_cpu(engine, x, y)
    assert_as_on_the_cpu(engine, y)


@pytest.mark.parametrize("phi", [1.0, 4.0])
def test_rows_that_are_not_finite_and_zeros_have_no_bounds(engine, phi):
    x, y = (random_matrix(20, 40, "complex128", phi, seed) for seed in (1, 2))
    for own in (x, y):
        own[1, ::2] *= 2.0**-30
    plain = assert_as_on_the_cpu(engine, x, y)
    for i, lay in enumerate(LAYOUTS.values()):
        x[i, i], y[i, 3], y[7] = np.nan, -np.inf, 0
        found = assert_as_on_the_cpu(engine, lay(x), y)
        assert found == assert_as_on_the_cpu(engine, y, lay(x))
        assert 1 < found <= plain


def test_pairs_that_meet_nowhere_have_no_bounds(engine):
    x = np.kron(np.eye(3), np.ones((2, 13))) + 0j
    assert assert_as_on_the_cpu(engine, x, x[:4]) == pytest.approx(1, rel=1e-5)
    assert assert_as_on_the_cpu(engine, x[:2], x[2:]) == 0


def test_terms_count_only_where_neither_is_zero(engine):
    """A large exponent beside a zero is larger than the only term, of 2^-140."""
    x, y = np.array([[1, 0, 2.0**-70]]), np.array([[0, 1, 2.0**-70]])
    found = assert_as_on_the_cpu(engine, x, y)
    assert found == pytest.approx(2.0**280, rel=1e-5)
    both = np.concatenate([x, y])
    assert assert_as_on_the_cpu(engine, both) == found


def test_terms_below_all_digits_count(engine):
    x = np.array([[1, 2.0**-40, 0], [1, 2.0**-70, 2.0**-90]])
    y = np.array([[2.0**-80, 1, 0], [0, 2.0**-60, 1]])
    found = assert_as_on_the_cpu(engine, x, y)
    assert found == pytest.approx(2.0**200, rel=1e-5)


def test_what_takes_too_long_is_left_to_stages(cuda, monkeypatch):
    a, b = (random_matrix(30, 30, "complex128", 1.5, seed) for seed in (1, 2))
    expected = on_cpu(td.explain, td.gemm, a, b)
    assert expected.closed_by == "pairs"
    for name in ("_MOST", "_LONGEST"):
        with monkeypatch.context() as other:
            other.setattr(pairs, name, 29)
            cuda.device.launched.clear()
            td.gemm(a, b)
            assert "find_open" in cuda.device.launched
    cuda.device.launched.clear()
    td.gemm(a, b)
    assert "find_open" not in cuda.device.launched
