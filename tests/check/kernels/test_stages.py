"""Stages of a product by the CPU's engine; pieces of stacks, bands, threads, levels."""

from unittest import mock

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.contract.encode import *  # noqa: F403
from tests.support.contract.finished_tiles import *  # noqa: F403
from tests.support.contract.stages import *  # noqa: F403
from tests.support.cpu_ways import bands_in_order, take
from tests.support.expect import raises, same_bits
from tests.support.pipeline import run_stages
from tests.support.stacks import random_stack
from tests.support.strategies import random_matrix
from twom_dist.errors import PlanError
from twom_dist.kernels.cpu import engine as cpu_engine
from twom_dist.moduli import residue_system


def test_threads_change_nothing(engine):
    x, y = random_matrix(600, 40, seed=1), random_matrix(530, 40, seed=2)
    found = []
    for count in (3, 1, 5):
        with dask.config.set({"twom-dist.threads": count}):
            found.append(run_stages(engine, x, y, residue_system("2m", 3)))
    for stages in found[1:]:
        assert all(same_bits(stages[name], found[0][name]) for name in stages)


@pytest.mark.parametrize("sizes", [(1, 1), (3 << 20, 3 << 20)])
@cases("uplo", ["full", "upper"])
@cases("dtype", ["float32", "complex128"])
def test_groups_of_rows_and_pieces_of_a_stack(dtype, uplo, sizes):
    """Pieces of one matrix side by side, and of several that share the threads."""
    a = random_stack((3,), 96, 130, dtype, 1)
    a[1, 50, 100] = np.nan
    whole = np.full((96, 96, 3), 77, dtype)
    out = whole.transpose(2, 0, 1)
    with (
        take("microkernel"),
        mock.patch.object(cpu_engine, "STACK_BYTES", sizes),
        dask.config.set({"twom-dist.threads": 2}),
    ):
        assert td.herk(a, out=out, num_moduli=5, uplo=uplo) is out
        expected = [td.herk(x, num_moduli=5, uplo=uplo) for x in a]
    assert same_bits(np.ascontiguousarray(out), np.array(expected))


@cases("n", [193, 300])
@cases("method", ["2m", "3m", "4m"])
@cases("uplo", ["full", "lower", "upper"])
def test_bands_of_an_update_are_closed_in_any_order(n, method, uplo):
    """Each mirrors its rows into those of others, which may be decoded later."""
    x = random_matrix(n, 40, "complex128", 1.0, 1)
    c = random_matrix(n, n, "complex128", 1.0, 2)
    c += c.conj().T
    options = {"beta": 0.5, "method": method, "num_moduli": 11, "uplo": uplo}
    with dask.config.set({"twom-dist.threads": 1}):
        expected = td.herk(x, c, **options)
    for step in (1, -1):
        with bands_in_order(step):
            assert same_bits(td.herk(x, c, **options), expected)


@cases("value", [3, -1, True, 1.5, "two"])
def test_a_level_that_does_not_exist(value):
    own = dask.config.set({"twom-dist.winograd-levels": value})
    with own, raises(PlanError, "setting"):
        td.gemm(np.ones((3, 3)), np.ones((3, 3)))
