"""Passes over finished tiles: the same bits as those of the CPU engine."""

import numpy as np
import pytest

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.cuda.operands import LAYOUTS
from tests.support.shifts import (
    assert_large_entries_stay_finite,
    assert_shifts_are_exact,
)
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine


@cases("dtype", DTYPES)
@cases("shape", [(1, 1), (5, 3), (33, 65), (0, 4)])
def test_passes_over_finished_tiles(engine, dtype, shape):
    host = get_engine("cpu")
    x, c = random_matrix(*shape, dtype, 9.0, 1), random_matrix(*shape, dtype, 9.0, 2)
    scalars = [(1, 1), (2.5, 0), (0, 1), (0, -1), (-0.5, 3)]
    if dtype.startswith("complex"):
        scalars += [(1j, 0.5), (1, 2 - 1j)]
    for alpha, beta in scalars:
        for left, right in ((x, c), (x[::-1], c[:, ::-1])):
            given = left if alpha else None, alpha, beta, right if beta else None
            found = engine.scale_and_add(*given, x.dtype)
            assert same_bits(found, host.scale_and_add(*given, x.dtype))
            assert found is not x
    for conjugate in (False, True):
        found = engine.mirror_tile(x, conjugate=conjugate)
        assert same_bits(found, host.mirror_tile(x, conjugate=conjugate))
        square = random_matrix(shape[0], shape[0], dtype, 1.0, 3)
        for uplo in ("full", "lower", "upper"):
            options = {"conjugate": conjugate, "uplo": uplo}
            found = engine.close_diagonal(square.copy(), **options)
            assert same_bits(found, host.close_diagonal(square.copy(), **options))


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts_are_exact_in_every_stage(engine, dtype):
    assert_shifts_are_exact(engine, dtype, LAYOUTS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts_leave_large_entries_finite(cuda, dtype):
    assert_large_entries_stay_finite(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_and_nans_of_finished_tiles(engine, dtype):
    host, values = get_engine("cpu"), np.array([0, -0.0, np.nan, -np.nan, 3, 5e-324])
    x = np.tile(np.repeat(values, len(values)), 2)
    with np.errstate(under="ignore"):
        x = x.astype(np.dtype(dtype).type(0).real.dtype).view(dtype).reshape(12, -1)
        c = x.T.copy().reshape(x.shape)
    for alpha, beta in ((1, 0), (-1, 0), (1, 1), (-1, -1)):
        given = x, alpha, beta, c if beta else None
        found = engine.scale_and_add(*given, x.dtype)
        assert same_bits(found, host.scale_and_add(*given, x.dtype))
    for conjugate in (False, True):
        mirrored = engine.mirror_tile(found, conjugate=conjugate)
        assert same_bits(mirrored, host.mirror_tile(found, conjugate=conjugate))
