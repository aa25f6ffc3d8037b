"""Samples of 8 bits modulo 2^32, by the CPU's engine."""

from contextlib import nullcontext

import dask
import dask.array as da
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
        take("microkernel", 64) if request.param else nullcontext(),
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
@cases("dtype", ["int8", "uint8"])
def test_long_sums_of_the_largest_samples(pairs, dtype):
    """Panels whose sums int32 holds are added as int64."""
    k = (1 << 17) + 5
    product = td.integers.herk if pairs else td.integers.syrk
    for largest in (np.iinfo(dtype).min, np.iinfo(dtype).max):
        x = np.full((2, k, 2) if pairs else (2, k), largest, dtype)
        assert td.explain(product, x, pairs=pairs).method == "int64"
        found = as_parts(product(x, pairs=pairs))
        assert found.flat[0] == (1 + pairs) * k * int(largest) ** 2


def test_lazy_samples_go_by_their_dtype():
    x = random_integers((6, 300), "int8", True)
    expected = td.integers.herk(x, pairs=True)
    lazy = da.from_array(x, chunks=(2, 70, 2))
    assert same_bits(td.integers.herk(lazy, pairs=True).compute(), expected)
    # A stack is multiplied in pieces along k, which are added.
    stack = da.stack([lazy, lazy])
    assert same_bits(td.integers.herk(stack, pairs=True)[1].compute(), expected)
    for k, method in ((300, "int32"), (1 << 16, "int64")):
        long = da.zeros((2, k, 2), dtype=np.int8)
        assert td.plan(td.integers.herk, long, pairs=True).method == method
