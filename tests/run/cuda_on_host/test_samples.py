"""Samples of 8 bits by the CUDA engine on the host."""

from functools import partial

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.contract.samples import *  # noqa: F403
from tests.support.contract.samples import draw
from tests.support.cuda.host_device import small_pieces
from tests.support.expect import same_bits
from tests.support.integers import random_integers
from tests.support.pipeline import REFERENCE, add_both_ways
from twom_dist.kernels.cuda import products
from twom_dist.moduli import samples_system

# Where large products are those of wgmma, and where those of residues are cuBLAS's.
pytestmark = pytest.mark.parametrize("engine", [90, 103], indirect=True)
KERNELS = [x for kind in products.SQUARES.values() for x in kind]


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
    assert {"encode_samples", "decode_samples"} < {*cuda.device.launched}


@pytest.mark.parametrize("squares", KERNELS, ids=lambda x: str(x.side))
@cases(("left", "right"), [("int8", "uint8"), ("uint8", "int8")])
@cases(("m", "n", "k"), [(70, 300, 130), (3, 2, (1 << 17) + 5)])
def test_every_kernel_makes_sums_of_either_length(
    engine, monkeypatch, squares, m, n, k, left, right
):
    """Of long rows by panels; the largest ones have one sign each."""
    if engine.device.capability() != 90:
        return  # which has all kernels
    monkeypatch.setattr(products, "choose_squares", lambda *_: squares)
    for bound in (1, 1 << 40):
        if bound == 1 and k > 1 << 16:
            continue
        found, system = [], samples_system(True, bound)
        for own in (engine, REFERENCE):
            x, y = draw(own, (m, k), left, True, 1), draw(own, (n, k), right, True, 2)
            for t in (x, y):
                least, most = t[0, 0], t[-1, -1]
                t[0], t[-1] = least, most
            x, y = (own.encode(t, np.zeros(len(t), np.int32), system) for t in (x, y))
            first = own.multiply(x, y, system)
            twice = add_both_ways(own, x, y, system, first)
            found.append([t[..., :n] for t in (first, *twice)])
        for t, expected in zip(*found, strict=True):
            assert np.array_equal(t, expected)


def test_sums_of_a_triangle(cuda):
    """No more squares than it takes, and nothing is read of the others."""
    x = random_integers((300, 40), "int8", True)
    for uplo in ("lower", "upper"):
        found = td.integers.herk(x, pairs=True, uplo=uplo)
        expected = td.integers.herk(x, pairs=True, uplo=uplo, engine="cpu")
        assert same_bits(np.asarray(found), expected)


def test_words_have_no_quarters(cuda):
    """Winograd's algorithm forms sums of bytes modulo p."""
    x = random_integers((65, 129), "int8", True)
    with dask.config.set({"twom-dist.winograd-levels": 1}):
        found = td.integers.gemm(x, x, op_b="C", pairs=True)
    expected = td.integers.gemm(x, x, op_b="C", pairs=True, engine="reference")
    assert same_bits(np.asarray(found), expected)
