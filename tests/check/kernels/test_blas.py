"""Products by BLAS: exact on this machine, or refused; its threads are given back."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_info

import twom_dist as td
from tests.support.cpu_ways import take
from tests.support.expect import raises
from twom_dist.errors import KernelError
from twom_dist.kernels.cpu.products import blas


def saturating(a: np.ndarray, b: np.ndarray, sums: np.ndarray) -> None:
    """Add pairs of products in saturating int16, as some instructions do."""
    sums[...] = 0
    for t in range(0, a.shape[-1], 2):
        pair = a[..., t : t + 2] @ b[..., t : t + 2, :]
        sums += np.clip(pair, -(2**15), 2**15 - 1)


def test_a_product_that_is_not_exact_is_refused(monkeypatch):
    blas.check_float32.__wrapped__()
    monkeypatch.setattr(blas, "multiply_float32", saturating)
    with raises(KernelError, "no-exact-product"):
        blas.check_float32.__wrapped__()


def test_blas_has_its_threads_again():
    """Products that begin within others, and end after them."""
    x, before = np.ones((300, 300)), threadpool_info()
    with take("float32"), ThreadPoolExecutor(3) as callers:
        for found in callers.map(lambda _: td.gemm(x, x, num_moduli=3), range(9)):
            assert (found == 300).all()
    assert threadpool_info() == before
