"""What `tune` measures decides whether our kernel or cuBLAS multiplies."""

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cuda.measured import cublas_from, take_measured, tuned
from tests.support.expect import same_bits
from tests.support.strategies import random_matrix

OURS, CUBLAS = {"products_mma", "products_tile"}, {"multiply_int8"}


def multiplier(device, routine, *given):
    """Name what multiplies; the bits are the CPU's."""
    device.launched.clear()
    found = np.asarray(routine(*given, num_moduli=5))
    given = [np.asarray(x) for x in given]
    assert same_bits(found, routine(*given, num_moduli=5, engine="cpu"))
    (found,) = (OURS | CUBLAS) & {*device.launched}
    return found


@pytest.mark.parametrize("engine", [89, 110, 120], indirect=True)
def test_cublas_multiplies_from_the_size_that_was_measured(cuda, tmp_path):
    with tuned(cuda, tmp_path) as (found, size):
        assert 32 < size <= 36
        assert f"cuBLAS multiplies if n >= {size:.0f}" in str(found)
        for n, expected in ((32, OURS), (48, CUBLAS), (32, OURS)):
            A, B = (random_matrix(n, n, seed=x) for x in (1, 2))
            for routine, *given in (
                (td.gemm, A, B),
                (td.herk, A),
                (td.syrk, np.stack([A, B])),
                (td.her2k, A, B),
                (td.gemm, A, da.from_array(B, chunks=n)),
            ):
                for _ in range(2):
                    assert multiplier(cuda.device, routine, *given) in expected
        # Tiles below that size are multiplied by our kernel.
        lazy = da.from_array(A := random_matrix(48, 48), chunks=24)
        assert multiplier(cuda.device, td.gemm, lazy, A) in OURS


@pytest.mark.parametrize("engine", [86], indirect=True)
def test_processes_that_start_later_read_the_file(cuda, tmp_path):
    A, variants = random_matrix(48, 48), []
    with tuned(cuda, tmp_path):
        for folder, expected in (("", CUBLAS), ("nowhere", OURS), ("", CUBLAS)):
            with dask.config.set({"twom-dist.crossovers": str(tmp_path / folder)}):
                assert take_measured(cuda)
            assert multiplier(cuda.device, td.gemm, A, A) in expected
            variants.append(cuda.variant())
        assert cublas_from(86) < cublas_from(87)  # not measured
    assert variants[0] == variants[2] != variants[1]


@pytest.mark.parametrize("engine", [90, 100], indirect=True)
def test_nothing_is_measured_where_there_is_no_choice(cuda, tmp_path):
    with tuned(cuda, tmp_path) as (found, size):
        assert (found.sizes, size) == ({}, None)
