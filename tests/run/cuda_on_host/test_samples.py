"""Samples of 8 bits by the CUDA engine on the host: cuBLAS in either type."""

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.contract.samples import *  # noqa: F403
from tests.support.cuda.host_device import small_pieces
from tests.support.expect import same_bits
from tests.support.integers import random_integers

pytestmark = pytest.mark.parametrize("engine", [90, 103], indirect=True)


@cases("dtype", ["int8", "uint8", "bool"])
@cases(("m", "k"), [(70, 40), (5, 1200)])
def test_routines_have_the_bits_of_the_cpu(cuda, m, k, dtype):
    """Those of uint8 go by moduli."""
    cuda.device.launched.clear()
    x, y = (random_integers((2, m, k), dtype, True, seed) for seed in (1, 2))
    with small_pieces():
        for routine, given in (
            (td.integers.herk, (x,)),
            (td.integers.herk, (x[0],)),
            (td.integers.her2k, (x[1], y[0])),
            (td.integers.gemm, (x[0], y[1].swapaxes(0, 1))),
        ):
            single = {"pairs": True, "alpha": 0.5, "dtype": "complex64"}
            for options in ({"pairs": True}, single):
                own = routine(*given, **options)
                other = routine(*given, engine="reference", **options)
                assert same_bits(np.asarray(own), other)
    launched = {x[0] if isinstance(x, tuple) else x for x in cuda.device.launched}
    assert ("encode_samples" in launched) == (dtype != "uint8")


def test_words_have_no_quarters(cuda):
    """Winograd's algorithm forms sums of bytes modulo p."""
    x = random_integers((65, 129), "int8", True)
    with dask.config.set({"twom-dist.winograd-levels": 1}):
        found = td.integers.gemm(x, x, op_b="C", pairs=True)
    expected = td.integers.gemm(x, x, op_b="C", pairs=True, engine="reference")
    assert same_bits(np.asarray(found), expected)
