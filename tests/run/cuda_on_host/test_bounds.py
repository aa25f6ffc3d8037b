"""The kernels of bounds.cu, and the survey, against the stages of other engines."""

import numpy as np
import pytest

from tests.support.bounds import SHAPES, assert_bounds_agree, random_magnitudes
from tests.support.cuda.operands import LAYOUTS
from tests.support.strategies import DTYPES, spread_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda import bounds

REFERENCE = get_engine("reference")


@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_of_every_shape(engine, shape, monkeypatch):
    monkeypatch.setattr(bounds, "_LISTED", 9)
    assert_bounds_agree(engine, *shape)


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
    operands = a, a, known, known
    expected = REFERENCE.smallest_cosines(*map(_plain, operands), 20)
    assert engine.smallest_cosines(*operands, 20) == pytest.approx(expected, 1e-5)


def _plain(x):
    return tuple(map(_plain, x)) if isinstance(x, tuple) else np.asarray(x)


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
    found = engine.smallest_cosines(x, y, *known, 20)
    expected = REFERENCE.smallest_cosines(x, y, *known, 20)
    assert found.dtype == np.float32
    assert found == pytest.approx(expected, rel=(k + 8) * 2.0**-23)
    assert found[2] == 1


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
