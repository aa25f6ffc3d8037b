"""Winograd's algorithm modulo p: the same residues with and without it.

Sizes are those of odd numbers of groups, ragged at their ends, whose quarters are again
of odd numbers, for groups of 16 rows and 4 columns and for those of 64 and 128.
"""

import dask
import numpy as np

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.contract.products import extreme_planes, triangle_of
from tests.support.pipeline import add_both_ways, dtype_for
from tests.support.strategies import random_matrix
from twom_dist.moduli import NAN_ROW, NONFINITE_ROW, residue_system

BY_LEVEL = [(1, (33, 47, 19)), (1, (65, 129, 130)), (2, (48, 65, 515))]
LARGER = (2, (193, 200, 390))


def encode(engine, rows, k, system, seed):
    """Encode a matrix with a row of zeros, and rows with a NaN and an Inf."""
    x = random_matrix(rows, k, dtype_for(system.method), 1.0, [k, seed])
    x[3], x[5, 1], x[2, 2] = 0, np.nan, np.inf
    exponents = np.full(rows, system.part_bits - 4, np.int32)
    exponents[[2, 5]] = NONFINITE_ROW, NAN_ROW
    return engine.encode(x, exponents, system)


def assert_levels_agree(engine, level, panels, system, wanted, **options):
    found, n = [], wanted.shape[1]
    for count in (0, level):
        with dask.config.set({"twom-dist.winograd-levels": count}):
            (left, right), *others = panels
            sums = engine.multiply(left, right, system, **options)
            for left, right in others:
                given = engine, left, right, system, sums
                sums, in_place = add_both_ways(*given, **options)
                assert (sums == in_place)[..., :n][:, wanted].all()
        found.append(sums[..., :n][:, wanted])
    assert same_bits(*found)


@cases(
    ("choice", "level", "shape"),
    [(("2m", 1), *x) for x in (*BY_LEVEL, LARGER)]
    + [((kind, 1), *x) for kind in ("3m", "eisenstein", "real") for x in BY_LEVEL],
)
def test_every_level_gives_the_same_residues(engine, choice, level, shape):
    system, (m, n, k) = residue_system(*choice), shape
    panels = [[encode(engine, t, k, system, seed) for t in (m, n)] for seed in (1, 2)]
    assert_levels_agree(engine, level, panels, system, np.ones((m, n), bool))


@cases("level", [1, 2])
def test_the_largest_residues_stay_symmetric(engine, level):
    """128 of the modulus 256, too."""
    system = residue_system("real", 3)
    panels = [
        [extreme_planes(engine, system, rows, k, [rows, k]) for rows in (70, 83)]
        for k in (129, 40)
    ]
    assert_levels_agree(engine, level, panels, system, np.ones((70, 83), bool))


@cases("triangle", ["full", "lower", "upper"])
def test_a_product_of_a_matrix_with_itself(engine, triangle):
    system, panels = residue_system("2m", 2), []
    for seed in (1, 2):
        left = encode(engine, 130, 300, system, seed)
        panels.append((left, left.reordered(system.conjugate_planes)))
    options = {"hermitian": True, "triangle": triangle}
    wanted = triangle_of(130, triangle)
    assert_levels_agree(engine, 1, panels, system, wanted, **options)
