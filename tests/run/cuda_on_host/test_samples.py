"""Samples of 8 bits by the CUDA engine on the host."""

from functools import partial

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.contract.samples import *  # noqa: F403
from tests.support.cuda.host_device import small_pieces
from tests.support.expect import same_bits
from tests.support.integers import random_integers

# Where large products are those of wgmma, and where those of residues are cuBLAS's.
pytestmark = pytest.mark.parametrize("engine", [90, 103], indirect=True)


@cases("dtype", ["int8", "uint8", "bool"])
@cases(("m", "k"), [(70, 40), (5, 1200)])
def test_routines_have_the_bits_of_the_cpu(cuda, m, k, dtype):
    """Also of samples of time first, and of channels that alternate."""
    x, y = (random_integers((2, m, k), dtype, True, seed) for seed in (1, 2))
    turned = random_integers((k, m, 3), dtype, True, 3).transpose(2, 0, 1, 3)
    with small_pieces():
        for routine, given in (
            (td.integers.herk, (x,)),
            (td.integers.herk, (x[0],)),
            (td.integers.her2k, (x[1], y[0])),
            (td.integers.gemm, (x[0], y[1].swapaxes(0, 1))),
            (partial(td.integers.herk, op="C"), (turned,)),
            (partial(td.integers.herk, op="C", uplo="upper"), (turned[1],)),
        ):
            single = {"pairs": True, "alpha": 0.5, "dtype": "complex64"}
            for options in ({"pairs": True}, single):
                own = routine(*given, **options)
                other = routine(*given, engine="reference", **options)
                assert same_bits(np.asarray(own), other)
    assert {"copy_samples", "decode_samples"} < {*cuda.device.launched}


def test_rows_are_read_as_they_lie(cuda):
    """If their distance and ends are multiples of 16 bytes; others are copied once."""
    x = random_integers((2, 9, 64), "int8", True)
    for part, copies in (
        *((x, 0), (x[0, :, :32], 0), (x[:1, ::2], 0), (x[0, 1:2, 32:], 0)),
        *((x[0, :, :30], 1), (x[0, :, 1:], 1), (x[0, :, ::2], 1), (x[:, ::2], 1)),
        (x[0].swapaxes(0, 1), 1),
    ):
        cuda.device.launched.clear()
        found = td.integers.herk(part, pairs=True)
        expected = td.integers.herk(part, pairs=True, engine="reference")
        assert same_bits(np.asarray(found), expected)
        assert cuda.device.launched.count("copy_samples") == copies


@cases("pairs", [False, True])
def test_rows_that_begin_together_need_not_be_the_same(cuda, pairs):
    x = random_integers((200, 64), "int8", pairs)
    for a, b in (
        *((x[:10], x[:40]), (x[:1], x[:128]), (x[:100], x[:200]), (x[:64], x[::2])),
        *((x.view("u1")[:10], x[:40]), (x[:40], x.view("u1")[:40])),
    ):
        found = td.integers.gemm(a, b, op_b="C", pairs=pairs)
        expected = td.integers.gemm(a, b, op_b="C", pairs=pairs, engine="reference")
        assert same_bits(np.asarray(found), expected)
    update = td.integers.her2k if pairs else td.integers.syr2k
    for b in (x[::2][:40], x.view("u1")[:40]):
        found = update(x[:40], b, pairs=pairs)
        expected = update(x[:40], b, pairs=pairs, engine="reference")
        assert same_bits(np.asarray(found), expected)


@cases("uplo", ["full", "lower", "upper"])
@cases(
    ("routine", "op", "pairs"), [("herk", "C", 1), ("syrk", "T", 1), ("syrk", "N", 0)]
)
def test_triangles_are_closed_as_they_are_decoded(cuda, routine, op, pairs, uplo):
    x, compute = (
        random_integers((33, 19), "uint8", pairs),
        getattr(td.integers, routine),
    )
    options = {"op": op, "uplo": uplo, "pairs": bool(pairs)}
    for own in ({}, {"alpha": 0.5, "dtype": "c8" if pairs else "f4"}):
        found = compute(x, **options, **own)
        expected = compute(x, engine="reference", **options, **own)
        assert same_bits(np.asarray(found), expected)
    assert "symmetrise_diagonal_tile" not in cuda.device.launched


def test_sums_of_a_triangle(cuda):
    """No more squares than it takes, and nothing is read of the others."""
    x = random_integers((300, 40), "int8", True)
    for uplo in ("lower", "upper"):
        found = td.integers.herk(x, pairs=True, uplo=uplo)
        expected = td.integers.herk(x, pairs=True, uplo=uplo, engine="cpu")
        assert same_bits(np.asarray(found), expected)


@cases("dtype", ["int32", "int64"])
@cases("uplo", ["full", "lower", "upper"])
@cases(("shape", "pairs"), [((33, 64), 1), ((3, 20, 8), 1), ((33, 48), 0)])
def test_integers_are_written_from_the_sums(cuda, shape, pairs, uplo, dtype):
    """By two launches, and nothing is allocated beside the sums and the result."""
    x, n, parts = random_integers(shape, "int8", pairs), shape[-2], 1 + pairs
    options = {"pairs": bool(pairs), "dtype": dtype}
    update = partial(td.integers.herk if pairs else td.integers.syrk, uplo=uplo)
    gemm = partial(td.integers.gemm, op_b="C")
    for compute, given in ((update, (x,)), (gemm, (x, x))):
        cuda.device.launched.clear()
        cuda.device.allocated.clear()
        found = compute(*given, **options)
        expected = compute(*given, engine="reference", **options)
        assert found.dtype == dtype
        assert same_bits(np.asarray(found), expected)
        assert sorted(cuda.device.launched) == ["decode_samples", "samples_mma"]
        entries = found.size // parts
        sums = 4 * parts * entries // n * (-(-n // 16) * 16)
        # A stack's result is NumPy's here.
        own = [sums] if x.ndim > 3 else [sums, found.nbytes]
        assert cuda.device.allocated == own


def test_words_have_no_quarters(cuda):
    """Winograd's algorithm forms sums of bytes modulo p."""
    x = random_integers((65, 129), "int8", True)
    with dask.config.set({"twom-dist.winograd-levels": 1}):
        found = td.integers.gemm(x, x, op_b="C", pairs=True)
    expected = td.integers.gemm(x, x, op_b="C", pairs=True, engine="reference")
    assert same_bits(np.asarray(found), expected)
