"""The encode kernel on the host: its contract, padding, and what fits its words."""

from math import isqrt

import pytest

from tests.support.contract.encode import *  # noqa: F403
from tests.support.expect import raises
from twom_dist.errors import KernelError
from twom_dist.kernels.cuda.tables import encode_constants, encode_table, encode_words
from twom_dist.moduli import available_moduli, make_system, residue_system


@pytest.fixture
def encode(calls):
    """The kernel, along rows and across them; what it pads with is zero."""

    def run(x, exponents, system, **options):
        rows, k = x.shape
        ways = ({"across": False}, {"across": True, "pad_rows": 7})
        both = [calls.encode(x, exponents, system, **options, **way) for way in ways]
        for found in both:
            assert not found[:, rows:].any()
            assert not found[:, :, k:].any()
        one, other = (found[:, :rows, :k] for found in both)
        assert (one == other).all()
        return one

    return run


@pytest.mark.parametrize("method", ["2m", "3m", "4m", "hybrid", "eisenstein", "real"])
def test_every_quantised_value_fits_its_words(method):
    words = []
    for count in range(1, len(available_moduli(method)) + 1):
        system = residue_system(method, count)
        words.append(encode_words(system))
        assert isqrt(system.capacity) < 2 ** (32 * words[-1] - 1)
        assert not encode_table(system).flags.writeable
    assert words == sorted(words)
    assert words[:8] == [1] * 8 if method == "2m" else words[0] == 1


def test_moduli_in_another_order_are_refused():
    system = make_system("hybrid", ((256, "3m"), (241, "2m")))
    with raises(KernelError, "order-of-moduli"):
        encode_constants(system)
