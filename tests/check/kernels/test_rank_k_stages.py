"""Rank-k stages of the engines: one encoding for both sides, products that follow."""

import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.pipeline import add_both_ways
from tests.support.strategies import random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu import engine as cpu_engine
from twom_dist.kernels.cpu import threads
from twom_dist.kernels.cpu.decode import closing, decode, mirrors
from twom_dist.kernels.cpu.decode.pieces import BAND
from twom_dist.kernels.cpu.decode.sums import COMBINED
from twom_dist.kernels.cpu.tuning import BLOCK, UPDATE_TILE
from twom_dist.kernels.limits import Update
from twom_dist.moduli import residue_system

SYSTEMS = (
    *(("2m", 1), ("2m", 16), ("2m", 22), ("3m", 1), ("3m", 15), ("3m", 49)),
    *(("4m", 1), ("4m", 11), ("hybrid", 21), ("hybrid", 42), ("real", 49)),
    *(("eisenstein", 1), ("eisenstein", 23)),
)
SHAPES = [(1, 1), (7, 0), (0, 5), (8, 9), (61, 33)]
# The reference is slow, and knows no blocks.
CASES = [
    *(("reference", shape) for shape in SHAPES),
    *(("cpu", shape) for shape in (*SHAPES, (16, 520), (BLOCK + 8, 3))),
]


@cases(("name", "shape"), CASES)
@cases("choice", [("2m", 3), ("real", 3), ("3m", 2), ("eisenstein", 3)])
@cases("conjugate", [False, True])
def test_a_left_operand_becomes_the_right_one(name, choice, shape, conjugate):
    engine, (kind, count), (rows, _) = get_engine(name), choice, shape
    system = residue_system(kind, count)
    dtype = "float64" if kind == "real" else "complex128"
    x, e = random_matrix(*shape, dtype, 1.0, 1), np.full(rows, 9, np.int32)
    order = tuple(range(len(system.planes)))
    if conjugate:
        order = system.conjugate_planes
        assert (order is None) == (kind == "3m")
        if order is None:
            return
    left = engine.encode(x, e, system)
    right = engine.encode(x, e, system, conjugate=conjugate)
    found = engine.reorder(left, order)
    assert found.shape == right.shape
    assert (found.residues() == right.residues()).all()
    product = engine.multiply(left, found, system)
    expected = engine.multiply(left, right, system)
    assert (product == expected)[..., :rows].all()


@cases(("name", "shape"), CASES)
@cases("choice", SYSTEMS)
def test_products_with_a_mirror_follow_from_the_others(name, choice, shape):
    engine, (kind, count), (rows, _) = get_engine(name), choice, shape
    # Blocks are cut alike for every modulus.
    system = residue_system(kind, count if rows < BLOCK else min(count, 3))
    dtype = "float64" if kind == "real" else "complex128"
    x, e = random_matrix(*shape, dtype, 1.0, 1), np.full(rows, 9, np.int32)
    left = engine.encode(x, e, system)
    right = engine.encode(x, e, system, conjugate=True)
    whole = engine.multiply(left, right, system)
    half = engine.multiply(left, right, system, hermitian=True)
    assert (half == whole)[..., :rows].all()
    if x.shape[1] == 0:
        return
    given = engine, left, right, system, whole
    twice = [
        found[..., :rows]
        for options in ({}, {"hermitian": True})
        for found in add_both_ways(*given, **options)
    ]
    assert all((found == twice[0]).all() for found in twice)


def test_what_a_hermitian_tile_costs():
    products = {
        kind: (system.num_hermitian_products, system.num_products)
        for kind in ("2m", "3m", "4m", "eisenstein", "real")
        for system in [residue_system(kind, 8)]
    }
    # 256 is even: 3M has no half to derive T1 with.
    twos = {"2m": (8, 16), "eisenstein": (8, 16)}
    assert products == twos | {"3m": (17, 24), "4m": (24, 32), "real": (8, 8)}


@cases("halves", [True, False])
@cases("vnni", [True, False])
def test_tiles_are_small_only_where_diagonal_ones_are_multiplied_in_full(
    monkeypatch, vnni, halves
):
    engine = get_engine("cpu")
    monkeypatch.setattr(cpu_engine, "has_vnni", lambda: vnni)
    given = residue_system("2m", 16), (3000, 3000, 100), Update(halves, two=True)
    assert engine.tile_limits(*given).mb == (UPDATE_TILE if halves or vnni else 512)


@pytest.fixture
def in_orders(monkeypatch):
    """Compute in as many pieces as there can be, the first or the last one first."""

    def run(compute):
        for step in (1, -1):
            ran = []

            def run_each(function, pieces, work=None, step=step, ran=ran):
                ran += pieces
                for piece in list(pieces)[::step]:
                    function(piece)

            decode._plan_tile.cache_clear()
            monkeypatch.setattr(decode, "run_each", run_each)
            with threads.limit_threads(2):
                yield compute()
            assert len(ran) > 2

    monkeypatch.setattr(threads, "WORTHWHILE", 1)
    yield run
    decode._plan_tile.cache_clear()


@cases("n", [193, 256, 300])
@cases("method", ["2m", "3m", "4m", "eisenstein"])
@cases("uplo", ["full", "lower", "upper"])
def test_bands_of_an_update_are_closed_in_any_order(in_orders, n, method, uplo):
    """Each mirrors its rows into those of others, which may be decoded later."""
    x = random_matrix(n, 40, "complex128", 1.0, 1)
    c = random_matrix(n, n, "complex128", 1.0, 2)
    c += c.conj().T

    def update():
        return td.herk(x, c, beta=0.5, method=method, num_moduli=11, uplo=uplo)

    with threads.limit_threads(1):
        expected = update()
    for found in in_orders(update):
        assert np.array_equal(found.view(np.int64), expected.view(np.int64))


def test_bands_are_whole_squares():
    """What is decoded of a row beyond the diagonal lies in its own band."""
    assert not any(BAND % side for side in (mirrors._TILE, closing._SQUARE, COMBINED))
