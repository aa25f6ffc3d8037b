"""The kernels of bounds.cu, and the survey, against the stages of other engines."""

import numpy as np
import pytest

from tests.bounds import SHAPES, assert_bounds_agree, random_magnitudes
from tests.kernels.cuda.operands import LAYOUTS
from tests.strategies import DTYPES, spread_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda import bounds, tuning

REFERENCE = get_engine("reference")


@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_of_every_shape(engine, shape):
    assert_bounds_agree(engine, *shape)


def test_bounds_do_not_see_the_pieces(engine, monkeypatch):
    x, y = random_magnitudes(3, 300, 1), random_magnitudes(4, 300, 2)
    expected = REFERENCE.multiply_magnitudes(x, y, 20)
    wanted = np.ones((3, 4), bool)
    terms = REFERENCE.largest_terms(x, y, wanted)
    for blocks, shortest in ((1, 1), (9, 32), (4, 64)):
        monkeypatch.setattr(tuning, "BOUND_BLOCKS", blocks)
        monkeypatch.setattr(tuning, "SHORTEST_BOUND", shortest)
        bounds._bound_grid.cache_clear()
        assert (engine.multiply_magnitudes(x, y, 20) == expected).all()
        assert (engine.largest_terms(x, y, wanted) == terms).all()
    bounds._bound_grid.cache_clear()


def test_many_pairs_are_multiplied_by_the_blas(engine, monkeypatch):
    monkeypatch.setattr(tuning, "LARGEST_BOUND", 5)
    assert_bounds_agree(engine, 2, 3, 70)
    assert "multiply_magnitudes" not in engine.device.launched
    assert "largest_terms" in engine.device.launched


def stages(x, columns):
    """What the reference finds one after the other."""
    largest = REFERENCE.largest_exponents(x)
    sums = REFERENCE.square_sums(x, largest, 20)
    found = [largest, sums]
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
            found = engine.survey(operands, 20, columns=columns)
            brought = engine.fetch([t for own in found for t in own if t is not None])
            wanted = [t for own in expected[: len(operands)] for t in own]
            for own, other_one in zip(brought, wanted, strict=True):
                assert (own == other_one).all()


def test_long_rows_are_surveyed_in_pieces(engine):
    x = spread_matrix(6, 5000, "float64")
    for operand in (x, x.T, np.asfortranarray(x)):
        found = engine.survey([operand], 20, columns=True)[0]
        for own, wanted in zip(found, stages(operand, True), strict=True):
            assert (own == wanted).all()
