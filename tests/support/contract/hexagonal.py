"""Eisenstein integers: the nearest point, the cell around 0, and the root of 3."""

from fractions import Fraction
from math import frexp

import numpy as np

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.points import (
    ROOT_3,
    awkward_entries,
    points_at_the_edge,
    points_from_beyond,
    points_of_half_digits,
    points_of_planes,
    residues_of_points,
)
from twom_dist.kernels import get_engine
from twom_dist.moduli import available_moduli, residue_system

REFERENCE = get_engine("reference")
COUNTS = range(1, len(available_moduli("eisenstein")) + 1)
WIDEST = residue_system("eisenstein", COUNTS[-1])
ZERO = np.zeros(1, np.int32)


def square_distance(z, point):
    """``|z - point|^2``, to within 2^-200."""
    re = Fraction(z.real) - Fraction(point[0], 2)
    im = Fraction(z.imag) - ROOT_3 * point[1] / 2
    return re * re + im * im


def points(engine, z, **options):
    planes = engine.encode(z, ZERO, WIDEST, **options).residues()
    return np.array(points_of_planes(planes, WIDEST), object)


def test_entries_are_rounded_to_the_nearest_point(engine):
    """And so are conjugates and opposites."""
    x = awkward_entries()
    found = points(engine, x)
    around = [(2, 0), (-2, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)]
    for z, (g, h) in zip(x[0].tolist(), found.tolist(), strict=True):
        assert (g + h) % 2 == 0
        own = square_distance(z, (g, h))
        assert own < Fraction(1, 3) + Fraction(1, 1 << 20)
        others = (square_distance(z, (g + a, h + b)) for a, b in around)
        assert own <= min(others) + Fraction(1, 1 << 20)
    assert (points(engine, -x) == -found).all()
    assert (points(engine, x.conj()) == found * [1, -1]).all()
    assert (points(engine, x, conjugate=True) == found * [1, -1]).all()


@cases("conjugate", [False, True])
@cases("count", [4, 8, 16, 17, 23])
def test_entries_are_rounded_alike(engine, count, conjugate):
    """In every number of words, up to the longest that they hold."""
    system, x = residue_system("eisenstein", count), awkward_entries()
    down = min(0, system.capacity.bit_length() // 2 - 80)
    for exponent in (down, down - 30, -300):
        given = x, np.full(1, exponent, np.int32), system
        found, expected = (
            t.encode(*given, conjugate=conjugate) for t in (engine, REFERENCE)
        )
        assert same_bits(found.residues(), expected.residues())


def decode_points(engine, points, system, words=1):
    count = -(-len(points) // 16) * 16
    residues = np.zeros((system.num_products, 1, count), np.int8)
    residues[:, :, : len(points)] = residues_of_points(points, system)
    args = residues, ZERO, np.zeros(len(points), np.int32), system, np.complex128
    found = engine.decode(*args, words=words)
    own = np.ascontiguousarray(residues[:, :, : len(points)])
    assert same_bits(found, REFERENCE.decode(own, *args[1:], words=words))
    return found[..., 0, :]


def ulps(found, value):
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


@cases("count", [1, 4, 8, 16, 23])
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


@cases("count", [1, 2, 4, 7, 8, 11, 14, 16, 17, 20, 23])
def test_decoding_is_odd_for_every_pattern_of_digits(engine, count):
    system = residue_system("eisenstein", count)
    edge = [x for g, h in points_at_the_edge(system) for x in ((g, h), (-g, -h))]
    for points in (points_of_half_digits(system), edge):
        for words in (1, 2):
            found = decode_points(engine, points, system, words)
            assert (found[..., ::2] == -found[..., 1::2]).all()


def test_a_point_from_beyond_is_odd_too(engine):
    """Where no other point has a digit of half its base."""
    met = 0
    for count in COUNTS:
        system = residue_system("eisenstein", count)
        for g, h in points_from_beyond(system):
            one, other = (
                decode_points(engine, [x], system) for x in ((g, h), (-g, -h))
            )
            assert one == -other
            met += 1
    assert met > 20
