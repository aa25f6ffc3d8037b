"""The kernels of bounds.cu, and the survey, against the stages of other engines."""

import numpy as np
import pytest

from tests.support.cases import sample
from tests.support.cuda.operands import LAYOUTS
from tests.support.strategies import DTYPES, random_matrix, spread_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.survey import Surveyed
from twom_dist.moduli import NONFINITE_ROW, ZERO_ROW

REFERENCE = get_engine("reference")


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
