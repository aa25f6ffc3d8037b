"""Blocks as dask hands them out: shared, refilled, mislabelled, mapped."""

from itertools import product

import dask
import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.lies import LIES, lying
from tests.support.strategies import random_matrix
from twom_dist.errors import KernelError

N, TILE = 60, 20
PAIR = [random_matrix(N, N, seed=seed) for seed in (1, 2)]
M, K = 6, 8
# Shapes of A, B and C, and what is computed from them.
CALLS = {
    "gemm": (
        ((M, K), (K, M), (M, M)),
        lambda a, b, c, **options: td.gemm(a, b, c, beta=1, **options),
    ),
    "gemm, transposed": (
        ((K, M), (M, K), (M, M)),
        lambda a, b, c, **options: td.gemm(
            a, b, c, beta=1, op_a="C", op_b="T", **options
        ),
    ),
    "herk": (
        ((M, K), None, (M, M)),
        lambda a, _, c, **options: td.herk(a, c, beta=1, **options),
    ),
    "syr2k": (
        ((K, M), (K, M), (M, M)),
        lambda a, b, c, **options: td.syr2k(a, b, c, beta=1, op="T", **options),
    ),
}


def test_one_persisted_matrix_serves_every_op():
    """Square tiles with equal exponents: only the op tells their encodings apart."""
    A, B = (np.round(x * 8) / 8 for x in PAIR)
    dA, dB = (da.from_array(x, chunks=TILE).persist() for x in (A, B))
    ops = [*product("NTC", "NTC")]
    lazy = [td.gemm(dA, dB, op_a=a, op_b=b, num_moduli=16) for a, b in ops]
    for scheduler in ("sync", "threads"):
        found = dask.compute(*lazy, scheduler=scheduler)
        for (a, b), C in zip(ops, found, strict=True):
            expected = td.gemm(A, B, op_a=a, op_b=b, num_moduli=16)
            assert (expected == C).all(), (a, b)


@cases("refill", [np.negative, lambda x: x[::-1].copy(), np.conj])
def test_a_block_refilled_in_place_is_encoded_again(refill):
    A, B = PAIR
    buffer = np.ones((N, N), complex)
    load = dask.delayed(lambda: buffer, pure=False)
    dA = da.from_delayed(load(), (N, N), complex)
    lazy = td.gemm(dA, da.from_array(B, chunks=N))
    for content in (A, refill(A)):
        buffer[...] = content
        C = lazy.compute(scheduler="sync")
        assert (td.gemm(content, B) == C).all()


def calls_with_lies():
    for (i, call), (j, lie) in product(enumerate(CALLS), enumerate(LIES)):
        there = [x for x, shape in zip("ABC", CALLS[call][0], strict=True) if shape]
        yield call, lie, there[(i + j) % len(there)], (i + j) % 2


@cases(("call", "lie", "where", "way"), calls_with_lies())
def test_blocks_that_are_not_what_their_array_says_are_refused(call, lie, where, way):
    (shapes, compute), (code, change) = CALLS[call], LIES[lie]
    arrays = {
        name: shape and da.ones(shape, dtype=complex, chunks=3)
        for name, shape in zip("ABC", shapes, strict=True)
    }
    arrays[where] = lying(arrays[where], change)
    panel_bytes, scheduler = ((1, "sync"), ("1 GiB", "threads"))[way]
    with dask.config.set({"twom-dist.panel-bytes": panel_bytes}):
        lazy = compute(*arrays.values())
    with raises(KernelError, code):
        lazy.compute(scheduler=scheduler)
    for options in ({"alpha": 0}, {"method": "blas"}):  # whoever adds C
        if where == "C" and code == "block-shape":
            with raises(KernelError, code):
                compute(*arrays.values(), **options).compute(scheduler="sync")


@cases("declared", ["int64", "bool", "float32"])
def test_blocks_are_checked_before_they_are_promoted(declared):
    x = da.ones((4, 4), chunks=2, dtype=declared)
    liar = lying(x, lambda b: b + 1j, dtype=declared)
    for lazy in (td.gemm(liar, x), td.zherk(liar), td.zgemm(x, x, liar, beta=1)):
        with raises(KernelError, "block-kind"):
            lazy.compute(scheduler="sync")
