"""Eisenstein integers: the nearest point, the cell around 0, and the root of 3."""

from fractions import Fraction
from math import frexp

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.oracle import ExactProduct
from tests.support.points import (
    ROOT_3,
    awkward_entries,
    points_at_the_edge,
    points_of_half_digits,
    points_of_planes,
    residues_of_points,
)
from tests.support.strategies import random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.hexagonal import HALF_ROOT, INVERSE_ROOT
from twom_dist.moduli import available_moduli, residue_system
from twom_dist.moduli.accuracy import error_bound

COUNTS = range(1, len(available_moduli("eisenstein")) + 1)
WIDEST = residue_system("eisenstein", COUNTS[-1])


def test_roots_of_3_have_two_words():
    for words, root in ((INVERSE_ROOT, ROOT_3 / 3), (HALF_ROOT, ROOT_3 / 2)):
        first, second = map(Fraction, words)
        assert words[0] == float(root)
        assert abs(first + second - root) < Fraction(1, 1 << 107)


def square_distance(z: complex, point: tuple[int, int]) -> Fraction:
    """``|z - point|^2``, to within 2^-200."""
    re = Fraction(z.real) - Fraction(point[0], 2)
    im = Fraction(z.imag) - ROOT_3 * point[1] / 2
    return re * re + im * im


def test_entries_are_rounded_to_the_nearest_point(engine):
    x = awkward_entries()
    planes = engine.encode(x, np.zeros(1, np.int32), WIDEST).residues()
    around = [(2, 0), (-2, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)]
    for z, (g, h) in zip(x[0].tolist(), points_of_planes(planes, WIDEST), strict=True):
        assert (g + h) % 2 == 0
        own = square_distance(z, (g, h))
        assert own < Fraction(1, 3) + Fraction(1, 1 << 20)
        others = (square_distance(z, (g + a, h + b)) for a, b in around)
        assert own <= min(others) + Fraction(1, 1 << 20)


def test_rounding_commutes_with_conjugation_and_negation(engine):
    x, exponents = awkward_entries(), np.zeros(1, np.int32)

    def points(z, **options):
        planes = engine.encode(z, exponents, WIDEST, **options)
        return np.array(points_of_planes(planes.residues(), WIDEST), object)

    found = points(x)
    assert (points(-x) == -found).all()
    assert (points(x.conj()) == found * [1, -1]).all()
    assert (points(x, conjugate=True) == found * [1, -1]).all()


def test_engines_round_alike():
    x = awkward_entries()
    for exponent in (0, -30, -300):
        planes = [
            engine.encode(x, np.full(1, exponent, np.int32), WIDEST)
            for engine in map(get_engine, ("cpu", "reference"))
        ]
        assert same_bits(*(t.residues() for t in planes))


def decode_points(engine, points, system, words=1) -> np.ndarray:
    residues = residues_of_points(points, system)
    exponents = np.zeros(1, np.int32), np.zeros(len(points), np.int32)
    decoded = engine.decode(residues, *exponents, system, np.complex128, words=words)
    return decoded[..., 0, :]


def ulps(found: float, value: Fraction) -> float:
    """Count the units in the last place that it is off."""
    unit = Fraction(2) ** (frexp(float(value))[1] - 53)
    return float(abs(Fraction(found) - value) / unit) if value else abs(found)


@cases("count", COUNTS)
def test_points_at_the_edge_of_the_cell_decode_to_themselves(engine, count):
    system = residue_system("eisenstein", count)
    points = points_at_the_edge(system)
    for (g, h), z in zip(points, decode_points(engine, points, system), strict=True):
        assert g * g + 3 * h * h <= 4 * system.capacity**2
        assert ulps(z.real, Fraction(g, 2)) <= 1
        assert ulps(z.imag, h * ROOT_3 / 2) <= 0.501


@pytest.mark.parametrize("count", [1, 4, 8, 16, 23])
def test_parts_are_rounded_once(engine, count):
    """The root of 3 is good for far more than the digits of a result."""
    system, rng = residue_system("eisenstein", count), np.random.default_rng(count)
    points = []
    for bits in range(1, system.capacity.bit_length() - 1):
        g, h = (int(t * 2.0**40) << bits >> 40 for t in rng.uniform(-1, 1, 2))
        points.append((g + (g + h) % 2, h))
    found = decode_points(engine, points, system)
    for (g, h), z in zip(points, found, strict=True):
        assert ulps(z.real, Fraction(g, 2)) <= (1 if abs(g) >> 53 else 0)
        assert ulps(z.imag, h * ROOT_3 / 2) <= 0.501
    pairs = decode_points(engine, points, system, words=2)
    for (g, h), high, low in zip(points, *pairs, strict=True):
        for part, value in (("real", Fraction(g, 2)), ("imag", h * ROOT_3 / 2)):
            left = value - Fraction(getattr(high, part)) - Fraction(getattr(low, part))
            # Roundings of three terms below 2^-53 of the value, and of the root.
            assert abs(left) <= abs(value) / 2**104
    for words, decoded in ((1, found), (2, pairs)):
        opposite = [(-g, -h) for g, h in points]
        assert (decode_points(engine, opposite, system, words) == -decoded).all()


@pytest.mark.parametrize("count", [12, 16, 23])
def test_decoding_is_odd_for_every_pattern_of_digits(count):
    system = residue_system("eisenstein", count)
    points = points_of_half_digits(system)
    found = decode_points(get_engine("cpu"), points, system)
    assert (found[::2] == -found[1::2]).all()
    assert same_bits(found, decode_points(get_engine("reference"), points, system))


@pytest.mark.parametrize("count", [3, 8, 14, 16, 20])
def test_errors_are_within_the_bound(count):
    """That of Gaussian integers with as large a product of moduli."""
    system = residue_system("eisenstein", count)
    for phi in (0, 1, 4):
        A, B = (random_matrix(20, 20, phi=phi, seed=[count, s]) for s in (1, 2))
        C = td.gemm(A, B, method="eisenstein", num_moduli=count)
        error = ExactProduct(A, B).normwise_error(C)
        assert error <= error_bound(system, 20, "complex128")


def test_real_integers_are_exact():
    """They lie on the lattice; imaginary ones do not."""
    A, B = np.random.default_rng(1).integers(-(2**20), 2**20, (2, 9, 9)) + 0j
    assert (td.gemm(A, B, method="eisenstein") == A @ B).all()
