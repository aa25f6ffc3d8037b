"""Products of planes: those of exact integers, added up, and of triangles."""

import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.pipeline import add_both_ways
from tests.support.strategies import random_matrix
from twom_dist.moduli import residue_system


def encode_integers(engine, x, system):
    return engine.encode(x, np.zeros(len(x), np.int32), system)


def draw(engine, rows, k, system, seed):
    """Encode a matrix of integers of some twenty bits."""
    return encode_integers(engine, random_matrix(rows, k, seed=seed) * 1e6, system)


def reduce(x, p):
    return (x + p // 2) % p - p // 2


def multiply_exactly(left, right, system) -> list[np.ndarray]:
    """Multiply residues in float64, whose sums are exact below 2^53."""
    a, b = left.residues().astype(float), right.residues().astype(float)
    sums = ((a[q.left] @ b[q.right].T).astype(np.int64) for q in system.products)
    return [reduce(x, q.p) for x, q in zip(sums, system.products, strict=True)]


@cases(
    "shape",
    [
        *((1, 1, 1), (7, 16, 4), (8, 17, 3), (9, 33, 5), (17, 48, 31), (16, 49, 64)),
        *((24, 95, 7), (65, 63, 130), (129, 33, 70), (3, 50, 4097)),
    ],
)
@pytest.mark.parametrize("choice", [("2m", 4), ("hybrid", 21), ("eisenstein", 5)])
def test_products_are_those_of_integers(engine, choice, shape):
    system, (m, n, k) = residue_system(*choice), shape
    left, right = draw(engine, m, k, system, 1), draw(engine, n, k, system, 2)
    found = engine.multiply(left, right, system)
    for own, expected in zip(found, multiply_exactly(left, right, system), strict=True):
        assert (own[:, :n] == expected).all()


@cases("shape", [(33, 65, 410), (5, 50, 9), (70, 3, 1)])
def test_what_is_added_to_stays_as_it_is(engine, shape):
    system, (m, n, k) = residue_system("2m", 2), shape
    left, right = draw(engine, m, k, system, 1), draw(engine, n, k, system, 2)
    before, exact = engine.multiply(left, right, system), []
    exact = multiply_exactly(left, right, system)
    for found in add_both_ways(engine, left, right, system, before):
        for own, once, q in zip(found, exact, system.products, strict=True):
            twice = reduce(2 * once.astype(np.int64), q.p)
            assert (own[:, :n] == twice).all()


@cases("triangle", ["lower", "upper"])
@cases("n", [1, 16, 47, 50, 200])
def test_a_triangle_is_right_and_what_is_added_to_it(engine, triangle, n):
    system = residue_system("2m", 3)
    x = draw(engine, n, 64, system, 1)
    wanted = np.tri(n, dtype=bool)
    wanted = wanted if triangle == "lower" else wanted.T
    found = engine.multiply(x, x, system, triangle=triangle)
    added = add_both_ways(engine, x, x, system, found, triangle=triangle)
    exact = multiply_exactly(x, x, system)
    for times, residues in ((1, found), *((2, own) for own in added)):
        for own, once, q in zip(residues, exact, system.products, strict=True):
            expected = reduce(times * once.astype(np.int64), q.p)
            assert (own[:, :n] == expected)[wanted].all()


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
