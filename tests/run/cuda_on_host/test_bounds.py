"""The kernels of bounds.cu, and the survey, against the stages of other engines."""

import numpy as np
import pytest

from tests.support.bounds import (
    SHAPES,
    assert_bounds_agree,
    assert_terms_are_of_what_meets,
    random_magnitudes,
)
from tests.support.cases import sample
from tests.support.cuda.operands import LAYOUTS
from tests.support.strategies import DTYPES, random_matrix, spread_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda import bounds
from twom_dist.kernels.survey import Surveyed
from twom_dist.moduli import NONFINITE_ROW, ZERO_ROW

REFERENCE = get_engine("reference")


@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_of_every_shape(engine, shape, monkeypatch):
    monkeypatch.setattr(bounds, "_LISTED", 9)
    assert_bounds_agree(engine, *shape)


def test_rows_that_never_meet_have_no_term(engine):
    assert_terms_are_of_what_meets(engine)


def test_products_do_not_see_the_pieces(engine, monkeypatch):
    monkeypatch.setattr(bounds, "LARGEST_K", 32)
    assert_bounds_agree(engine, 30, 20, 100)


class Unmultiplied(np.ndarray):
    """An array that no BLAS multiplies: on a device it might be set to emulate."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        assert ufunc is not np.matmul
        plain = [np.asarray(x) for x in inputs]
        options["out"] = tuple(np.asarray(x) for x in options.get("out", ())) or None
        found = getattr(ufunc, method)(*plain, **options)
        return found.view(Unmultiplied) if isinstance(found, np.ndarray) else found


def test_no_blas_multiplies_what_decides_about_moduli(engine):
    with pytest.raises(AssertionError):
        np.eye(2).view(Unmultiplied) @ np.eye(2)
    x, y = (random_magnitudes(60, 40, seed).view(Unmultiplied) for seed in (1, 2))
    found = engine.multiply_digits(x, y, 2)
    expected = REFERENCE.multiply_digits(*map(np.asarray, (x, y)), 2)
    assert (found == expected).all()
    assert engine.device.launched.count("multiply_int8") == 3
    a = np.stack([spread_matrix(9, 40, "complex128")] * 2).view(Unmultiplied)
    largest = engine.largest_exponents(a)
    known = largest, engine.square_sums(a, largest, 20)
    operands, both = (a, a, known, known), np.arange(2)
    expected = REFERENCE.smallest_cosines(*map(_plain, operands), 20, both)
    found = engine.smallest_cosines(*operands, 20, both)
    assert found == pytest.approx(expected, 1e-5)


def _plain(x):
    return tuple(map(_plain, x)) if isinstance(x, tuple) else np.asarray(x)


def test_what_decides_about_moduli_is_multiplied_exactly(engine, monkeypatch):
    """By what was checked, though kernels of ours multiply all else on Hopper."""
    monkeypatch.setattr(engine.device, "exact_element", lambda: "float16")
    x, y = (random_magnitudes(60, 40, seed) for seed in (1, 2))
    found = engine.multiply_digits(x, y, 2)
    assert (found == REFERENCE.multiply_digits(x, y, 2)).all()
    assert engine.device.launched.count("multiply_float16") == 3


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (70, 3, 33), (65, 130, 500)])
def test_smallest_cosines_of_pieces_of_a_stack(engine, monkeypatch, m, n, k):
    monkeypatch.setattr(bounds, "LARGEST_STACK", 2)
    rng = np.random.default_rng(m)
    x, y = rng.random((5, m, k)), rng.random((5, n, k)) ** 8
    x[1, m // 2], y[2], y[3, 0, 0] = 0, np.nan, np.inf
    known = []
    for t in (x, y):
        largest = engine.largest_exponents(t)
        known.append((largest, engine.square_sums(t, largest, 20)))
    every = REFERENCE.smallest_cosines(x, y, *known, 20, np.arange(5))
    assert every[2] == 1
    for places in (np.arange(5), np.array([1, 2, 4])):
        found = engine.smallest_cosines(x, y, *known, 20, places)
        assert found.dtype == np.float32
        assert found == pytest.approx(every[places], rel=(k + 8) * 2.0**-23)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_summary_of_stacks_is_that_of_the_reference(engine, dtype, columns):
    x, y = (
        np.stack([spread_matrix(rows + i, 75, dtype)[i:] for i in range(3)])
        for rows in (5, 300)
    )
    x[1, 1], x[1, :, 3], y[1, 2, 3], y[2] = 0, 0, np.nan, 0
    for operands in ([x], [y, x], [x, x[:, :, ::-1]]):
        found = engine.survey(operands, 20, totals=True, columns=columns)
        expected = []
        for own, t in zip(found, operands, strict=True):
            expected.append(Surveyed(*stages(t, columns)))
            for one, other in zip(own, expected[-1], strict=True):
                assert other is None or (one == other).all()
        own = engine.summarise(found, 75)
        other = REFERENCE.summarise(expected, 75)
        assert (own.cosines == other.cosines).all()
        assert own.cosines.min() < 0.9
        assert (own.columns == other.columns).all() if columns else not own.columns


@sample("dtype", DTYPES, ["float32", "complex128"])
def test_the_largest_errors_of_stacks_are_those_of_the_reference(engine, dtype):
    x, y = (
        np.stack([random_matrix(rows, 40, dtype, 1.0, seed) for seed in range(3)])
        for rows in (3, 270)
    )
    x[2], y[2], y[0, 1, 1] = 0, 0, np.inf
    for operands in ([y], [x, y], [y, x]):
        exponents = []
        for t in operands:
            largest = REFERENCE.largest_exponents(t)
            own = np.where(largest == ZERO_ROW, 0, 7 - largest)
            exponents.append(np.where(largest == NONFINITE_ROW, largest, own))
        every = REFERENCE.largest_errors(operands, exponents, 20, np.arange(3))
        assert every[2] == 0 < every.min(where=[True, True, False], initial=2**62)
        for places in (np.arange(3), np.array([1]), np.array([0, 2])):
            found = engine.largest_errors(operands, exponents, 20, places)
            assert found.tolist() == every[places].tolist()


def stages(x, columns):
    """What the reference finds one after the other."""
    largest = REFERENCE.largest_exponents(x)
    found = [largest, *REFERENCE.row_sums(x, largest, 20)]
    return [*found, REFERENCE.column_exponents(x, largest)] if columns else found


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_survey_is_its_stages(engine, dtype, columns):
    x, y = spread_matrix(37, 75, dtype), spread_matrix(300, 75, dtype)
    x[1], x[2, 3], y[7, 9] = 0, np.nan, np.inf
    expected = [stages(t, columns) for t in (x, y)]
    layouts = list(LAYOUTS.values())
    for lay, other in zip(layouts, layouts[1:] + layouts[:1], strict=True):
        for operands in ([lay(x)], [lay(x), other(y)]):
            found = engine.survey(operands, 20, totals=True, columns=columns)
            brought = engine.fetch([t for own in found for t in own if t is not None])
            wanted = [t for own in expected[: len(operands)] for t in own]
            for own, other_one in zip(brought, wanted, strict=True):
                assert (own == other_one).all()


def test_long_rows_are_surveyed_in_pieces(engine):
    x = spread_matrix(6, 5000, "float64")
    for operand in (x, x.T, np.asfortranarray(x)):
        found = engine.survey([operand], 20, totals=True, columns=True)[0]
        for own, wanted in zip(found, stages(operand, True), strict=True):
            assert (own == wanted).all()
