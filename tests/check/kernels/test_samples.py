"""Samples of 8 bits modulo 2^32, by the CPU's engine."""

from contextlib import nullcontext

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.contract.samples import *  # noqa: F403
from tests.support.cpu_ways import take
from tests.support.expect import same_bits
from tests.support.integers import as_parts, conjugate, multiply, random_integers


@pytest.fixture(params=[False, True], ids=["whole", "blocks"], autouse=True)
def blocks(request):
    """Blocks of rows, and of k, as they are; and as small as they can be."""
    with (
        take("microkernel") if request.param else nullcontext(),
        dask.config.set({"twom-dist.threads": 2}),
    ):
        yield


@cases("uplo", ["full", "lower", "upper"])
@cases("n", [1, 16, 37, 200])
def test_triangles_and_samples_of_time_first(uplo, n):
    x = random_integers((n, 70), "int8", True)
    expected = multiply(x, conjugate(x), True)
    turned = np.ascontiguousarray(x.swapaxes(0, 1))
    for found in (
        td.integers.herk(x, pairs=True, uplo=uplo),
        td.integers.herk(turned, op="C", pairs=True, uplo=uplo).conj(),
    ):
        cut = {"full": np.ones_like, "lower": np.tril, "upper": np.triu}[uplo]
        kept = as_parts(found) == expected * cut(np.ones((n, n), int))[..., None]
        assert kept.all()


@cases("pairs", [False, True])
def test_entries_decide_where_the_dtype_does_not(pairs):
    """Of long sums int32 holds those of small samples; others take more moduli."""
    k = 1 << 17
    for largest, moduli in ((1, 1), (127, 1 if not pairs else 5), (-128, 5)):
        x = np.full((2, k, 2) if pairs else (2, k), largest, np.int8)
        product = td.integers.herk if pairs else td.integers.syrk
        assert td.explain(product, x, pairs=pairs).num_moduli == moduli
        found = as_parts(product(x, pairs=pairs))
        assert found.flat[0] == (1 + pairs) * k * largest**2


def test_lazy_samples_go_by_their_dtype():
    import dask.array as da

    x = random_integers((6, 300), "int8", True)
    expected = td.integers.herk(x, pairs=True)
    lazy = da.from_array(x, chunks=(2, 70, 2))
    found = td.integers.herk(lazy, pairs=True)
    assert same_bits(found.compute(), expected)
    assert td.plan(td.integers.herk, lazy, pairs=True).num_moduli == 1
    long = da.zeros((2, 1 << 16, 2), dtype=np.int8)
    assert td.plan(td.integers.herk, long, pairs=True).num_moduli == 5
