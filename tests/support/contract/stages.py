"""Every stage of a product, and of a stack: the bits of the reference, and recorded.

By levels of Winograd's algorithm, too, whose sizes are of odd numbers of groups, ragged
at their ends, whose quarters are again of odd numbers, for groups of 16 rows and 4
columns and for those of 64 and 128.
"""

import json
from itertools import product

import dask
import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.contract.products import extreme_planes, triangle_of
from tests.support.expect import same_bits
from tests.support.pipeline import REFERENCE, add_both_ways, dtype_for, run_stages
from tests.support.places import DATA
from tests.support.stacks import random_stack
from tests.support.strategies import SHAPES, random_matrix, turned
from twom_dist.kernels import get_engine
from twom_dist.moduli import NAN_ROW, NONFINITE_ROW, residue_system

SYSTEMS = (
    *(("2m", 1), ("2m", 2), ("2m", 16), ("2m", 22), ("3m", 1), ("3m", 15), ("3m", 49)),
    *(("4m", 1), ("4m", 11), ("hybrid", 21), ("hybrid", 24), ("hybrid", 42)),
    *(("real", 1), ("real", 8), ("real", 15), ("real", 49)),
)
# Tiles are cut into blocks of C, rows into shorter pieces.
BEYOND = [(1027, 2, 3), (2, 1027, 3), (2, 3, 1027)]
BEYOND_ONE_BLOCK = ("2m", 3), ("3m", 2), ("real", 9)


def assert_stages_agree(engine, x, y, system, **options):
    found = run_stages(engine, x, y, system, **options)
    expected = run_stages(REFERENCE, x, y, system, **options)
    for name, value in expected.items():
        assert same_bits(found[name], value), name
    return found


@cases(
    ("choice", "shape"), [*product(SYSTEMS, SHAPES), *product(BEYOND_ONE_BLOCK, BEYOND)]
)
def test_every_stage_is_equal(engine, choice, shape):
    """Rows of zeros, and with an Inf or a NaN, have no residues."""
    (kind, count), (m, n, k) = choice, shape
    dtype = dtype_for(kind, single=(count + m) % 3 == 0)
    x, y = random_matrix(m, k, dtype, 1.0, [k, 1]), random_matrix(n, k, dtype, 4.0, 2)
    if m > 2 and n > 1:
        x[1], y[0], x[2, 2], y[1, 0] = 0, 0, np.inf, np.nan
    system = residue_system(kind, count)
    stages = assert_stages_agree(engine, x, y, system, conjugate=k % 2 == 0)
    assert m < 3 or n < 2 or (stages["left planes"][:, 1:3] == 0).all()
    assert stages["C"].dtype == dtype


@cases("shape", [(40, 40, 0), (0, 3, 2), (3, 0, 2), (0, 0, 0)])
@cases("stack", [(), (0,), (2,)])
def test_empty_tiles_multiply_to_zeros(engine, stack, shape):
    (m, n, k), system = shape, residue_system("2m", 16)
    x, y = np.zeros((*stack, m, k), complex), np.zeros((*stack, n, k), complex)
    rows, columns = np.zeros((*stack, m), np.int32), np.zeros((*stack, n), np.int32)
    given = engine.encode(x, rows, system), engine.encode(y, columns, system)
    for _ in range(3):
        junk = np.full((system.num_products, *stack, m, n), 77, np.int8)
        del junk  # so that memory that nobody clears is not zero by chance
        residues = engine.multiply(*given, system)
        assert residues[..., :n].shape == (system.num_products, *stack, m, n)
        assert not residues.any()
    found = engine.decode(residues, rows, columns, system, np.dtype(complex))
    assert found.shape == (*stack, m, n)
    assert not found.any()


# The stages whose first axis is that of planes, products or words.
BY_PLANE = ("left planes", "right planes", "residues", "pair")
STACKED = {
    "C": lambda x: x,
    "transposed": turned,
    "every second": lambda x: np.repeat(x, 2, axis=0)[::2],
}


@cases("layout", STACKED)
@cases("choice", [("2m", 3), ("3m", 2), ("hybrid", 21), ("real", 3)])
def test_every_stage_of_a_stack(engine, choice, layout):
    (kind, count), lay = choice, STACKED[layout]
    system, dtype = residue_system(kind, count), dtype_for(kind)
    shapes = ((1,), 1, 1, 1), ((2,), 5, 3, 7), ((2, 1), 17, 18, 5), ((2,), 66, 17, 130)
    for stack, m, n, k in shapes:
        x, y = random_stack(stack, m, k, dtype, 1), random_stack(stack, n, k, dtype, 2)
        y[-1, ..., 0, 0] = np.inf
        found = run_stages(engine, lay(x), lay(y), system, conjugate=True)
        for place in np.ndindex(stack):
            given = x[place], y[place], system
            expected = run_stages(get_engine("cpu"), *given, conjugate=True)
            for name, value in expected.items():
                where = (slice(None), *place) if name in BY_PLANE else place
                assert same_bits(found[name][where], value), name


@cases("hermitian", [False, True])
@cases("triangle", ["full", "lower", "upper"])
@cases("n", [18, 70])
def test_residues_of_a_stack_are_added(engine, n, triangle, hermitian):
    system, options = residue_system("2m", 3), {"hermitian": hermitian}
    x, e = random_stack((2, 1), n, 5, "complex128", 1), np.full((2, 1, n), 9, np.int32)
    given = [engine.encode(x, e, system, conjugate=t) for t in (False, True)]
    whole = engine.multiply(*given, system)
    options["triangle"] = triangle
    before = engine.multiply(*given, system, **options)
    expected = engine.add_residues(whole, whole, system)[..., :n]
    for found in add_both_ways(engine, *given, system, before, **options):
        assert ((found[..., :n] == expected) | ~triangle_of(n, triangle)).all()


RECORDED = json.loads((DATA / "recorded_products.json").read_text())


def parts(rows):
    """Read hexadecimal floats, the parts of an entry one after the other."""
    return np.array([[float.fromhex(t) for t in row] for row in rows])


@pytest.mark.parametrize("case", RECORDED, ids=lambda c: f"{c['method']}-{c['N']}")
def test_recorded_products(engine, case):
    """The bits of earlier versions; the exact errors were checked when recorded."""
    a, b, c = (parts(case[name]) for name in "ABC")
    kind = np.float64 if case["method"] == "real" else np.complex128
    x, y = a.view(kind), np.ascontiguousarray(b.view(kind).T)
    stages = run_stages(engine, x, y, residue_system(case["method"], case["N"]))
    assert stages["left exponents"].tolist() == case["rows"]
    assert stages["right exponents"].tolist() == case["columns"]
    assert stages["residues"][:, 0, 0].tolist() == case["residues"]
    assert same_bits(stages["C"].view(float), c)


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
    + [((kind, 1), *x) for kind in ("3m", "real") for x in BY_LEVEL],
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
        panels.append((left, left.reorder(system.conjugate_planes)))
    options = {"hermitian": True, "triangle": triangle}
    wanted = triangle_of(130, triangle)
    assert_levels_agree(engine, 1, panels, system, wanted, **options)
