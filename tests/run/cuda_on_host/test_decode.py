"""The decode kernel on the host: its contract, blocks and padding, and its bounds."""

from fractions import Fraction

import numpy as np
import pytest

from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.contract.decode import *  # noqa: F403
from tests.support.contract.decode import SYSTEMS, USUAL, dtype_of, random_residues
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda.tables import decode_constants, decode_table
from twom_dist.moduli import available_moduli, residue_system


@pytest.fixture
def stages(calls):
    """The kernel, called with doubles and with integers for digits."""
    return calls


@sample("choice", SYSTEMS, USUAL)
def test_blocks_and_padding_change_nothing(calls, choice):
    system = residue_system(*choice)
    for m, n in ((3, 16), (5, 7), (2, 33)):
        residues = random_residues(system, m, n, n)
        rows, columns = np.arange(m, dtype=np.int32), np.arange(n, dtype=np.int32) - 9
        args = residues, rows, columns, system, dtype_of(system)
        for words in (1, 2):
            expected = get_engine("reference").decode(*args, words=words)
            found = calls.decode(*args, words=words, blocks=2, pad=3)
            assert same_bits(found, expected)


METHODS = ("2m", "3m", "4m", "hybrid", "eisenstein", "real")


@pytest.mark.parametrize("method", METHODS)
def test_quotients_of_integers_are_near_enough(method):
    """The bounds that digits.cuh counts on, for every system."""
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


@pytest.mark.parametrize("method", METHODS)
def test_every_sum_of_digits_is_exact(method):
    """Sums of combined residues, with 2^52 the bound that quotients count on."""
    bounds = {"2m": (2, 2), "3m": (2, 3), "4m": (2, 2), "real": (1,)}
    bounds["eisenstein"] = bounds["2m"]
    for count in range(1, len(available_moduli(method)) + 1):
        system = residue_system(method, count)
        table = decode_table(system)
        shape = (system.num_moduli, system.num_digits, system.parts)
        weights = np.abs(table[system.num_digits + 3 :].reshape(shape))
        residues = [bounds[kind] for kind in system.kinds]
        largest = np.array(residues) * (np.array(system.moduli) // 2)[:, np.newaxis]
        sums = (weights * largest[:, np.newaxis, :]).sum(axis=0)
        assert sums.max() < 2.0**52
        # The bias of the combined residues.
        assert largest.max() <= 512
