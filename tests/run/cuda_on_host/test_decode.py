"""Decode by the kernels on the host, by doubles and by integers; its tables."""

from fractions import Fraction

import numpy as np
import pytest

from tests.support.contract.decode import *  # noqa: F403
from tests.support.cuda.host_device import host_engine
from twom_dist.kernels.cuda.tables import decode_constants, decode_table
from twom_dist.moduli import available_moduli, residue_system

METHODS = ("2m", "3m", "4m", "hybrid", "real")


@pytest.fixture(params=[90, 89], ids="sm_{}".format)
def engine(host_kernels, request):
    """Digits are doubles on one of them, integers on the other."""
    return host_engine(host_kernels, request.param)


@pytest.mark.parametrize("method", METHODS)
def test_sums_of_digits_are_exact_and_quotients_near_enough(method):
    """The bounds that digits.cuh counts on, for every system."""
    bounds = dict.fromkeys(("2m", "4m"), (2, 2)) | {"3m": (2, 3)}
    for count in range(1, len(available_moduli(method)) + 1):
        system = residue_system(method, count)
        m, b, digits = system.modulus_product, system.digit_bits, system.num_digits
        shift, place = dict(decode_constants(system).numbers)["TOP_SHIFT"], digits - 1
        assert 37 <= b <= 45
        assert 64 * system.num_products <= 1 << (51 - b)
        assert m >= Fraction(2) ** (place * b - 1)
        unit = Fraction(2) ** (place * b - shift)
        assert 1 << 44 <= m / unit < 1 << 45
        factor = Fraction(decode_table(system)[digits + 2])
        assert factor.denominator == 1
        assert factor <= 1 << 62
        largest = (1 << (51 - b)) + (1 << (52 - b))  # quotient and LIFT
        wrong = largest * abs(factor / (unit * 2**106 / m) - 1) + Fraction(1, 1 << 42)
        if digits > 1:
            wrong += unit / m
            below = sum(Fraction(1 << 52) * (1 << t * b) for t in range(digits - 2))
            wrong += below / m
        assert wrong < Fraction(1, 1 << 20)
        assert m / Fraction(2) - system.capacity >= m * Fraction(1, 1 << 20)
        # Sums of combined residues, with 2^52 the bound that quotients count on.
        table = decode_table(system)
        shape = (system.num_moduli, system.num_digits, system.parts)
        weights = np.abs(table[system.num_digits + 3 :].reshape(shape))
        residues = [bounds.get(kind, (1,)) for kind in system.kinds]
        most = np.array(residues) * (np.array(system.moduli) // 2)[:, np.newaxis]
        sums = (weights * most[:, np.newaxis, :]).sum(axis=0)
        assert sums.max() < 2.0**52
        # The bias of the combined residues.
        assert most.max() <= 512
