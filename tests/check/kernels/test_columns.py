"""Looks at rows and columns by the engines of NumPy: stacks, shifts and surveys."""

from math import prod

import numpy as np
import pytest

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.contract.norms import *  # noqa: F403
from tests.support.shifts import assert_shifts_are_exact
from tests.support.strategies import DTYPES, LAYOUTS, random_matrix, spread_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.look import survey


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponents_of_columns_of_stacks(engine, dtype):
    x = np.stack([spread_matrix(5, 9, dtype), random_matrix(5, 9, dtype)] * 2)
    x = x.reshape(2, 2, 5, 9)
    x[1, 0, 2, 3] = np.nan
    x[0, 0, :, 1] = 0
    largest = engine.largest_exponents(x)
    for given in (x, turned(x)):
        found = engine.column_exponents(given, largest)
        for place in np.ndindex(2, 2):
            alone = engine.column_exponents(x[place], largest[place])
            assert same_bits(found[place], alone)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts_are_exact_in_every_stage(engine, dtype):
    assert_shifts_are_exact(engine, dtype, LAYOUTS)


@cases("pieces", [False, True])
@cases("shape", [(1, 1), (37, 75), (40, 500), (300, 7), (3, 40, 9), (2, 2, 5, 3)])
@cases("dtype", DTYPES)
def test_a_survey_is_its_stages(monkeypatch, dtype, shape, pieces):
    engine = get_engine("cpu")
    if pieces:
        monkeypatch.setattr(survey, "_ENTRY", 10**6)
    x = np.stack([spread_matrix(*shape[-2:], dtype)] * prod(shape[:-2])).reshape(shape)
    if x[..., 0, 0].size < x.size:
        x[..., -1, 0], x[..., 0, :] = np.nan, 0
    y = random_matrix(*shape[-2:], dtype) if x.ndim == 2 else x[..., ::-1]
    e = np.arange(shape[-1], dtype=np.int32) % 7 - 3
    for shifts in (None, [e, -e])[: 4 - x.ndim]:
        columns = shifts is None
        expected = []
        for t, own in zip((x, y), shifts or (None, None), strict=True):
            largest = engine.largest_exponents(t, own)
            sums = engine.row_sums(t, largest, 20, own)
            ends = engine.column_exponents(t, largest) if columns else None
            expected.append((largest, *sums, ends))
        for lay in LAYOUTS.values() if x.ndim == 2 else [lambda t: t, turned]:
            given = [lay(x), lay(y)]
            found = engine.survey(
                given, 20, totals=True, columns=columns, shifts=shifts
            )
            for one, other in zip(found, expected, strict=True):
                for own, wanted in zip(one, other, strict=True):
                    assert wanted is own is None or same_bits(own, wanted)


def turned(x):
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
