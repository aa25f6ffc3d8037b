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
