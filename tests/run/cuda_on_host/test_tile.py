"""Passes over finished tiles: the same bits as those of the CPU engine."""

import numpy as np
import pytest

from tests.support.bits import same_bits
from tests.support.cuda.operands import LAYOUTS
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (33, 65), (0, 4)])
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
def test_columns_times_powers_of_two(engine, dtype):
    x = random_matrix(33, 40, dtype, 1.0)
    info = np.finfo(dtype)
    x[1, 2], x[2, 3], x[3, 4] = np.nan, np.inf, info.smallest_subnormal
    x[1, -1], x[2, 0] = -info.max, -info.tiny
    shifts = np.arange(-50, 70, 3, dtype=np.int32)
    for layout in LAYOUTS.values():
        found = engine.scale_columns(layout(x), shifts)
        assert same_bits(found, get_engine("cpu").scale_columns(x, shifts))


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
