"""Decode by the engines of NumPy, errors within their bounds, Eisenstein integers."""

from fractions import Fraction
from math import cos, frexp, isqrt, pi, sin

import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.contract.decode import *  # noqa: F403
from tests.support.expect import raises
from tests.support.oracle import ExactProduct, reconstruct
from tests.support.pipeline import REFERENCE, residues_of
from tests.support.strategies import random_matrix
from twom_dist.errors import AccuracyError
from twom_dist.moduli import available_moduli, residue_system, symmetric_residue


@cases("phi", [0, 1, 4])
@cases("count", [3, 8, 14, 16, 20])
def test_errors_of_eisenstein_integers_are_within_the_bound(count, phi):
    """That of Gaussian integers with as large a product of moduli."""
    A, B = (random_matrix(20, 20, phi=phi, seed=[count, s]) for s in (1, 2))
    options = {"method": "eisenstein", "num_moduli": count}
    error = ExactProduct(A, B).normwise_error(td.gemm(A, B, **options))
    assert error <= td.explain(td.gemm, A, B, **options).error_bound


def test_errors_of_both_operands_are_bounded_together():
    """Every entry of either is rounded from 1.5 to 2, at the smallest scale."""
    x = np.full((1, 11), 1.5)
    found = ExactProduct(x, x.T).normwise_error(td.gemm(x, x.T, num_moduli=1))
    assert found == pytest.approx(7 / 9)
    assert found <= td.explain(td.gemm, x, x.T, num_moduli=1).error_bound < 0.9


def test_real_integers_are_exact():
    """They lie on the lattice; imaginary ones do not."""
    A, B = np.random.default_rng(1).integers(-(2**20), 2**20, (2, 9, 9)) + 0j
    assert (td.gemm(A, B, method="eisenstein") == A @ B).all()
    assert td.plan(td.gemm, A, B, method="eisenstein").spec.engine == "reference"
    with raises(AccuracyError, "method"):
        td.gemm(A, B, method="eisenstein", engine="cpu")


COUNTS = range(1, len(available_moduli("eisenstein")) + 1)
WIDEST = residue_system("eisenstein", COUNTS[-1])
ZERO = np.zeros(1, np.int32)
# An Eisenstein integer (g + h sqrt(-3)) / 2 is a pair of integers of one parity.
ROOT_3 = Fraction(isqrt(3 << 800), 1 << 400)


def awkward_entries():
    """Entries up to the largest that there are, near ties, on axes, and tiny."""
    rng = np.random.default_rng(1)
    sizes = np.repeat(2.0 ** np.array([-60, -1, 0, 1, 3, 20, 52, 53, 54, 70, 79]), 40)
    angles = rng.uniform(0, 2 * np.pi, sizes.size)
    spread = sizes * rng.uniform(0.5, 0.999, sizes.size) * np.exp(1j * angles)
    # Half-way between two points, or three, and beside.
    steps = rng.integers(-(2**20), 2**20, (2, 60))
    ties = steps[0] / 4 + 1j * steps[1] / 4 * 3.0**0.5
    thirds = steps[0] / 2 + 1j * steps[1] / (2 * 3.0**0.5)
    axes = np.concatenate([ties.real, 1j * ties.imag, 1j * steps[0] * 2.0**40])
    ends = [5e-324, 5e-324j, 0.5 + 5e-324j, 1e-310 + 1e-320j, 2.0**79, 2.0**79 * 1j]
    return np.concatenate([spread, ties, thirds, axes, ends])[np.newaxis]


def points_at_the_edge(system, directions=48):
    """Points whose magnitude is the largest that decodes, in so many directions.

    Six of them are those of the neighbours of 0 among the multiples of M.
    """
    capacity, points = system.capacity, []
    for turn in range(directions):
        angle = 2 * pi * turn / directions
        largest = isqrt(4 * capacity**2 // 3)
        h = min(largest, abs(int(2 * capacity * Fraction(sin(angle)) / ROOT_3)))
        g = isqrt(4 * capacity**2 - 3 * h**2)
        g -= (g + h) % 2
        points.append((g if cos(angle) > 0 else -g, h if sin(angle) > 0 else -h))
    return points


def points_of_half_digits(system):
    """Points of all sizes, each before its opposite, with digits of half their base.

    Large parts are beyond M / 2, and come back from there with such digits.
    """
    b, half = system.digit_bits, 1 << (system.digit_bits - 1)
    choices = np.array([0, 1, -1, half - 1, half, -half, -half, 1 - half, 7], object)
    rng, points = np.random.default_rng(system.num_moduli), []
    leading = 1 << (system.num_digits - 1) * b
    for _ in range(600):
        point = []
        for sign in rng.choice([-1, 1], 2):
            size = int(rng.integers(1 << 40)) * 2 * system.capacity >> 40
            size = int(sign) * size >> int(rng.choice([0, 0, 0, 1, b, 3 * b]))
            drawn = choices[rng.integers(0, len(choices), system.num_digits - 1)]
            low = sum(int(d) << (t * b) for t, d in enumerate(drawn))
            point.append(low + (size - low) // leading * leading)
        g, h = point
        g += (g + h) % 2
        if g * g + 3 * h * h <= 4 * system.capacity**2:
            points += [(g, h), (-g, -h)]
    return points


def square_distance(z, point):
    """``|z - point|^2``, to within 2^-200."""
    re = Fraction(z.real) - Fraction(point[0], 2)
    im = Fraction(z.imag) - ROOT_3 * point[1] / 2
    return re * re + im * im


def points(z, **options):
    """Find the points that one row is rounded to."""
    planes = residues_of(REFERENCE.encode(z, ZERO, WIDEST, **options)).astype(int)[:, 0]
    twice_g, difference = (
        [reconstruct(column.tolist(), WIDEST.moduli) for column in x.T]
        for x in (planes[0::2] + planes[1::2], planes[0::2] - planes[1::2])
    )
    # 2 s h, and s modulo each p by the Chinese remainder theorem.
    whole, roots = WIDEST.modulus_product, [x.im_weight for x in WIDEST.planes[0::2]]
    inverse = pow(2 * reconstruct(roots, WIDEST.moduli), -1, whole)
    parts = (
        [g * pow(2, -1, whole) for g in twice_g],
        [d * inverse for d in difference],
    )
    found = zip(*parts, strict=True)
    return np.array([[symmetric_residue(t, whole) for t in x] for x in found], object)


def test_entries_are_rounded_to_the_nearest_point():
    """And so are conjugates and opposites."""
    x = awkward_entries()
    found = points(x)
    around = [(2, 0), (-2, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)]
    for z, (g, h) in zip(x[0].tolist(), found.tolist(), strict=True):
        assert (g + h) % 2 == 0
        own = square_distance(z, (g, h))
        assert own < Fraction(1, 3) + Fraction(1, 1 << 20)
        others = (square_distance(z, (g + a, h + b)) for a, b in around)
        assert own <= min(others) + Fraction(1, 1 << 20)
    assert (points(-x) == -found).all()
    assert (points(x.conj()) == found * [1, -1]).all()
    assert (points(x, conjugate=True) == found * [1, -1]).all()


def decode_points(points, system, components=1):
    """Decode one row of a product."""

    def residue(point, plane):
        value = plane.re_weight * point[0] + plane.im_weight * point[1]
        return symmetric_residue(2 * value, plane.p)

    residues = np.zeros((system.num_products, 1, len(points)), np.int8)
    for own, q in zip(residues, system.products, strict=True):
        own[0] = [residue(x, system.planes[q.left]) for x in points]
    args = residues, ZERO, np.zeros(len(points), np.int32), system, np.complex128
    return REFERENCE.decode(*args, components=components)[..., 0, :]


def ulps(found, value):
    """Count the units in the last place that it is off."""
    unit = Fraction(2) ** (frexp(float(value))[1] - 53)
    return float(abs(Fraction(found) - value) / unit) if value else abs(found)


@cases("count", COUNTS)
def test_points_at_the_edge_of_the_cell_decode_to_themselves(count):
    system = residue_system("eisenstein", count)
    points = points_at_the_edge(system)
    for (g, h), z in zip(points, decode_points(points, system), strict=True):
        assert g * g + 3 * h * h <= 4 * system.capacity**2
        assert ulps(z.real, Fraction(g, 2)) <= 1
        assert ulps(z.imag, h * ROOT_3 / 2) <= 0.501


@cases("count", [1, 4, 8, 16, 23])
def test_parts_are_rounded_once(count):
    """The root of 3 is good for far more than the digits of a result."""
    system, rng = residue_system("eisenstein", count), np.random.default_rng(count)
    points = []
    for bits in range(1, system.capacity.bit_length() - 1):
        g, h = (int(t * 2.0**40) << bits >> 40 for t in rng.uniform(-1, 1, 2))
        points.append((g + (g + h) % 2, h))
    found = decode_points(points, system)
    for (g, h), z in zip(points, found, strict=True):
        assert ulps(z.real, Fraction(g, 2)) <= (1 if abs(g) >> 53 else 0)
        assert ulps(z.imag, h * ROOT_3 / 2) <= 0.501
    pairs = decode_points(points, system, components=2)
    for (g, h), high, low in zip(points, *pairs, strict=True):
        for part, value in (("real", Fraction(g, 2)), ("imag", h * ROOT_3 / 2)):
            left = value - Fraction(getattr(high, part)) - Fraction(getattr(low, part))
            # Roundings of three terms below 2^-53 of the value, and of the root.
            assert abs(left) <= abs(value) / 2**104


# Real points beyond M / 2, where a digit of half its base next to the leading one
# decides a rounding: what lies below is nearly half-way between two doubles, by less
# than a sum has digits for that begins with -2^(b-1).
BEYOND = {
    11: [0xA80000000000043000000],
    12: [0x60A80000000002003000000],
    17: [0x1B100000000000806000000000000000],
    23: [0xF800000000000430000000000000000000000000],
}


@cases("count", [1, 2, 4, 7, 8, 11, 12, 14, 16, 17, 20, 23])
def test_decoding_is_odd_for_every_pattern_of_digits(count):
    system = residue_system("eisenstein", count)
    edge = [x for g, h in points_at_the_edge(system) for x in ((g, h), (-g, -h))]
    edge += [(sign * g, 0) for g in BEYOND.get(count, ()) for sign in (1, -1)]
    for points in (points_of_half_digits(system), edge):
        for components in (1, 2):
            found = decode_points(points, system, components)
            assert (found[..., ::2] == -found[..., 1::2]).all()
