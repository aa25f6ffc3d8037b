"""Products of planes: those of exact integers, added up, of triangles, and derived."""

import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.pipeline import add_both_ways, dtype_for, residues_of
from tests.support.strategies import random_matrix
from twom_dist.moduli import available_moduli, make_system, residue_system

# Ragged for any block, of more than one block, and of several along k.
SHAPES = (
    *((1, 1, 1), (7, 16, 4), (8, 17, 3), (9, 33, 5), (17, 48, 31), (16, 49, 64)),
    *((65, 63, 130), (129, 33, 70), (3, 50, 4097), (40, 270, 20)),
)


def encode_integers(engine, x, system):
    return engine.encode(x, np.zeros(len(x), np.int32), system)


def draw(engine, rows, k, system, seed):
    x = random_matrix(rows, k, dtype_for(system.method), 1.0, seed)
    return encode_integers(engine, x * 1e6, system)


def reduce(x, p):
    return (x + p // 2) % p - p // 2


def multiply_exactly(left, right, system):
    """Multiply residues in float64, whose sums are exact below 2^53."""
    a, b = (residues_of(x).astype(float) for x in (left, right))
    sums = ((a[q.left] @ b[q.right].T).astype(np.int64) for q in system.products)
    return [reduce(x, q.p) for x, q in zip(sums, system.products, strict=True)]


def assert_exact(found, exact, system, times=1, wanted=np.True_):
    for own, once, q in zip(found, exact, system.products, strict=True):
        expected = reduce(times * once.astype(np.int64), q.p)
        assert ((own[:, : once.shape[1]] == expected) | ~wanted).all()


def triangle_of(n, triangle):
    wanted = np.tri(n, dtype=bool)
    return {"full": wanted | True, "lower": wanted, "upper": wanted.T}[triangle]


@cases("shape", SHAPES)
@pytest.mark.parametrize("choice", [("2m", 4), ("hybrid", 21)])
def test_products_are_those_of_integers(engine, choice, shape):
    system, (m, n, k) = residue_system(*choice), shape
    left, right = draw(engine, m, k, system, 1), draw(engine, n, k, system, 2)
    found = engine.multiply(left, right, system)
    assert_exact(found, multiply_exactly(left, right, system), system)


@cases(
    ("shape", "triangle"),
    [
        *((x, "full") for x in ((33, 65, 410), (5, 50, 9), (70, 3, 1), (129, 257, 48))),
        *(((n, n, 64), x) for n in (1, 16, 47, 50, 200) for x in ("lower", "upper")),
    ],
)
def test_what_is_added_to_stays_as_it_is(engine, shape, triangle):
    """In a triangle, too: of a matrix by itself."""
    system, (m, n, k) = residue_system("2m", 3), shape
    left = draw(engine, m, k, system, 1)
    right = draw(engine, n, k, system, 2) if triangle == "full" else left
    wanted = np.True_ if triangle == "full" else triangle_of(n, triangle)
    exact = multiply_exactly(left, right, system)
    found = engine.multiply(left, right, system, triangle=triangle)
    added = add_both_ways(engine, left, right, system, found, triangle=triangle)
    for times, residues in ((1, found), *((2, own) for own in added)):
        assert_exact(residues, exact, system, times, wanted)


@cases("shape", [(1, 16), (3, 48), (70, 144)])
@cases("method", ["2m", "real"])
def test_sums_of_parts_along_k(engine, method, shape):
    """Every pair of ends among them; the operands stay as they are."""
    system = residue_system(method, 9)
    rng = np.random.default_rng(shape)
    p = np.array([product.p for product in system.products])[:, None, None]
    x, y = (rng.integers(-(p // 2), (p - 1) // 2 + 1, (len(p), *shape)) for _ in "xy")
    x[:, 0, 0] = y[:, 0, 0] = -(p[:, 0, 0] // 2)
    x[:, 0, 1] = y[:, 0, 1] = (p[:, 0, 0] - 1) // 2
    given = [t.astype(np.int8) for t in (x, y)]
    for t in given:
        t.flags.writeable = False
    found = engine.add_residues(*given, system)
    assert found.dtype == np.int8
    assert (found == reduce(x + y, p)).all()


def extreme_planes(engine, system, rows, k, seed):
    """Encode integers so small that some residues of every modulus are the largest."""
    halves = [p // 2 for p in system.moduli]
    rng = np.random.default_rng(seed)
    x = rng.choice([*halves, *(-h for h in halves), 1, 0], (rows, k)).astype(float)
    x[0], x[1] = -halves[0], halves[-1]
    return encode_integers(engine, x, system)


@pytest.mark.parametrize("choice", [("real", 1), ("2m", 1)])
@pytest.mark.parametrize("k", [(1 << 16) + 40, (1 << 17) + 144])
def test_long_sums_are_those_of_int64(engine, choice, k):
    """Of one sign, the largest there are: near 2^31 where nothing is reduced before."""
    system = residue_system(*choice)
    p, low = system.moduli[0], -(system.moduli[0] // 2)
    x, y = np.random.default_rng(k).integers(low, -low, (2, 3, k)).astype(float)
    x[0], x[1], y[0], y[1] = low, -1, low, -low - 1
    left, right = (encode_integers(engine, t + 0j, system) for t in (x, y))
    expected = reduce((x @ y.T).astype(np.int64), p)
    assert all(
        (own[:, :3] == expected).all() for own in engine.multiply(left, right, system)
    )


@cases("p", [p for p, _ in available_moduli("real")])
def test_large_sums_of_every_residue_are_reduced(engine, p):
    """Sums up to 2^25, in every residue class of every modulus."""
    system, low = make_system("real", ((p, "real"),)), -(p // 2)
    large = 2**11 if p > 240 else 2**8
    left, right = np.full((1, large + p), -1.0), np.zeros((p, large + p))
    left[:, :large] = right[:, :large] = low
    right[:, large:] = np.tri(p, k=-1)
    given = (encode_integers(engine, t, system) for t in (left, right))
    (found,) = engine.multiply(*given, system)
    assert (found[0, :p] == reduce(large * low**2 - np.arange(p), p)).all()


SYSTEMS = (
    *(("2m", 1), ("2m", 16), ("2m", 22), ("3m", 1), ("3m", 15), ("3m", 49)),
    *(("4m", 1), ("4m", 11), ("hybrid", 21), ("hybrid", 42), ("real", 49)),
)


def encode_both(engine, system, rows, k, seed=1):
    x = random_matrix(rows, k, dtype_for(system.method), 1.0, seed)
    e = np.full(rows, 9, np.int32)
    return [engine.encode(x, e, system, conjugate=own) for own in (False, True)]


@cases("shape", [(1, 1), (7, 0), (0, 5), (8, 9), (61, 33), (16, 520)])
@cases("choice", [("2m", 3), ("real", 3), ("3m", 2)])
def test_a_left_operand_becomes_the_right_one(engine, choice, shape):
    system = residue_system(*choice)
    left, conjugate = encode_both(engine, system, *shape)
    assert (system.conjugate_planes is None) == (choice[0] == "3m")
    for right, order in (
        (left, tuple(range(len(system.planes)))),
        (conjugate, system.conjugate_planes),
    ):
        if order is not None:
            found = left.reorder(order)
            assert found.shape == right.shape
            assert (residues_of(found) == residues_of(right)).all()
            both = [engine.multiply(left, x, system) for x in (found, right)]
            assert (both[0] == both[1])[..., : shape[0]].all()


@cases(
    ("choice", "shape", "triangles"),
    [(x, (17, 9), ("full",)) for x in SYSTEMS]
    + [
        ((kind, 3), (n, 70), ("lower", "upper"))
        for kind in ("2m", "3m", "4m")
        for n in (41, 132)
    ],
)
def test_products_with_a_mirror_follow_from_others(engine, choice, shape, triangles):
    system, n = residue_system(*choice), shape[0]
    given = *encode_both(engine, system, *shape), system
    whole = engine.multiply(*given)
    twice = engine.add_residues(whole, whole, system)
    for triangle in triangles:
        wanted = triangle_of(n, triangle)
        options = {"hermitian": True, "triangle": triangle}
        found = engine.multiply(*given, **options)
        assert (found == whole)[..., :n][:, wanted].all()
        for added in add_both_ways(engine, *given, found, **options):
            assert (added == twice)[..., :n][:, wanted].all()
