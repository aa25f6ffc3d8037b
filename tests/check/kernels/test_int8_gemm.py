"""The GEMM of a library: exact on this machine, or replaced by one that is."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import twom_dist as td
from tests.support.cases import cases
from tests.support.cpu_ways import take
from tests.support.expect import raises
from twom_dist.errors import KernelError
from twom_dist.kernels.cpu.products import int8_gemm
from twom_dist.kernels.cpu.products.int8_gemm import FLOAT32, U8S8

HAS_BYTES = int8_gemm.has_onnx_runtime() and int8_gemm.multiplies_bytes()
GEMMS = [FLOAT32] + [U8S8] * HAS_BYTES


def as_int64(a, b):
    return (a.astype(float) @ b.astype(float)).astype(np.int64)


def saturating(a, b, out):
    """Add pairs of products in saturating int16, as x86 without VNNI does."""
    out[...] = 0
    for t in range(0, a.shape[-1], 2):
        pair = as_int64(a[..., t : t + 2], b[..., t : t + 2, :])
        out += np.clip(pair, -(2**15), 2**15 - 1).astype(np.int32)


SATURATING = replace(U8S8, multiply=saturating)
EXACT = replace(U8S8, multiply=lambda a, b, out: np.copyto(out, as_int64(a, b)))


@cases("gemm", GEMMS)
@cases("stack", [(), (3,)])
@cases("shape", [(1, 1, 1), (1, 67, 3), (37, 1, 1031), (3, 5, 2**16), (65, 33, 513)])
def test_products_are_exact(gemm, shape, stack):
    m, n, k = shape
    k = min(k, gemm.longest)
    rng = np.random.default_rng(k)
    low, high = (0, 255) if gemm.unsigned else (-128, 127)
    a = rng.integers(low, high + 1, (*stack, m, k)).astype(gemm.left)
    b = rng.integers(-128, 128, (*stack, k, n)).astype(gemm.right)
    top = high if gemm.unsigned else low
    for left, right in ((a, b), (np.full_like(a, top), np.full_like(b, -128))):
        out = np.full((*stack, m, n), 12345, gemm.sums)
        gemm.multiply(left, right, out)
        assert (out == as_int64(left, right)).all()


@cases(
    ("installed", "has_bytes", "u8s8", "float32", "taken"),
    [
        (True, True, EXACT, FLOAT32, EXACT),
        (True, True, SATURATING, FLOAT32, FLOAT32),
        (False, True, None, FLOAT32, FLOAT32),
        (True, False, None, FLOAT32, FLOAT32),
        (False, True, None, SATURATING, None),
    ],
)
def test_the_first_that_is_exact_is_taken(installed, has_bytes, u8s8, float32, taken):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(int8_gemm, "has_onnx_runtime", lambda: installed)
        monkeypatch.setattr(int8_gemm, "multiplies_bytes", lambda: has_bytes)
        monkeypatch.setattr(int8_gemm, "U8S8", u8s8)
        monkeypatch.setattr(int8_gemm, "FLOAT32", float32)
        if taken is not None:
            assert int8_gemm.get_gemm.__wrapped__() is taken
            # Numbers below 128 saturate nowhere, however long sums are.
            monkeypatch.setattr(int8_gemm, "get_gemm", lambda: taken)
            a, b = np.full((5, 2100), 127, np.uint8), np.full((2100, 7), 127, np.uint8)
            out = np.full((5, 7), 5, np.int32)
            int8_gemm.multiply_small(a, b, out)
            assert (out == as_int64(a, b)).all()
            return
        with raises(KernelError, "no-exact-product"):
            int8_gemm.get_gemm.__wrapped__()


def test_blas_has_its_threads_again():
    """Products that begin within others, and end after them."""
    x, before = np.ones((300, 300)), threadpool_info()
    with take("float32"), ThreadPoolExecutor(3) as callers:
        for found in callers.map(lambda _: td.gemm(x, x, num_moduli=3), range(9)):
            assert (found == 300).all()
    assert threadpool_info() == before
