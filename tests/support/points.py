"""Eisenstein integers ``(g + h sqrt(-3)) / 2`` as pairs of integers of one parity."""

from fractions import Fraction
from math import cos, isqrt, pi, sin

import numpy as np

from twom_dist.moduli import reconstruct, symmetric_residue

Point = tuple[int, int]

_ROOT_BITS = 400
ROOT_3 = Fraction(isqrt(3 << 2 * _ROOT_BITS), 1 << _ROOT_BITS)


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


def points_from_beyond(system):
    """Points beyond M / 2 on an axis where a digit of half its base decides a rounding.

    The digit next to the leading one; what lies below is nearly half-way between two
    doubles, by less than a sum has digits for that begins with -2^(b-1).
    """
    b, last = system.digit_bits, system.num_digits - 1
    leading, far, points = 1 << last * b, system.modulus_product // 2, []
    most = 2 * system.capacity // leading
    if last < 2 or most.bit_length() > 54 - b:
        return []
    for first in range(far // leading, most):
        whole = first * leading + (1 << last * b - 1)
        tie, rest = whole.bit_length() - 54, 3 << last * b - 56
        if last * b - 53 <= tie < (last - 1) * b and far < whole:
            for more in (0, 2 << tie):
                g = whole + more + (1 << tie) + rest
                points.append((g, g % 2))
    return points[:: 1 + len(points) // 40]


def residues_of_points(points, system):

    def residue(point, plane_index):
        plane = system.planes[plane_index]
        value = plane.re_weight * point[0] + plane.im_weight * point[1]
        return symmetric_residue(2 * value, plane.p)

    table = [[residue(point, q.left) for point in points] for q in system.products]
    return np.array(table, np.int8)[:, np.newaxis, :]


def points_of_planes(planes, system):
    """Find the points of (planes, 1, k) residues of an encoded row."""
    twice_g = reconstruct_each(planes[0::2] + planes[1::2].astype(int), system)
    difference = reconstruct_each(planes[0::2] - planes[1::2].astype(int), system)
    # 2 s h, and s modulo each p by the Chinese remainder theorem.
    roots = [plane.im_weight for plane in system.planes[0::2]]
    inverse = pow(2 * reconstruct(roots, system.moduli), -1, system.modulus_product)
    half = pow(2, -1, system.modulus_product)
    return [
        tuple(symmetric_residue(t, system.modulus_product) for t in (g * half, h))
        for g, h in zip(twice_g, (d * inverse for d in difference), strict=True)
    ]


def reconstruct_each(residues, system):
    return [reconstruct(column.tolist(), system.moduli) for column in residues[:, 0].T]
