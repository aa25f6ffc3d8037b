"""Winograd's algorithm modulo p: the same residues with and without it."""

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.expect import raises
from tests.support.pipeline import add_both_ways, dtype_for
from tests.support.strategies import random_matrix
from twom_dist.errors import PlanError
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.encode import encode as encoding
from twom_dist.kernels.cpu.products import multiply
from twom_dist.kernels.cpu.threads import limit_threads
from twom_dist.kernels.winograd import LEFT, RESULT, RIGHT, choose_levels
from twom_dist.moduli import NAN_ROW, NONFINITE_ROW, residue_system

SYSTEMS = (("2m", 2), ("3m", 2), ("4m", 2), ("eisenstein", 3), ("real", 2))
# Groups of 16 rows and words of 4: odd numbers of them, and ragged last ones, whose
# quarters are again of odd numbers.
SHAPES = [(32, 32, 8), (33, 47, 19), (100, 130, 70), (129, 65, 17), (48, 65, 515)]


def levels(count):
    return dask.config.set({"twom-dist.winograd-levels": count})


def test_the_form_is_that_of_a_product_in_quarters():
    quarters = np.eye(4, dtype=int).reshape(2, 2, 2, 2)
    exact = np.einsum("ilab,ljcd->ijabcd", quarters, quarters).reshape(4, 4, 4)
    assert (np.einsum("qt,ta,tb->qab", RESULT, LEFT, RIGHT) == exact).all()


def encode(engine, rows, k, kind, system, seed):
    """Encode matrices with a row of zeros, and rows with a NaN and an Inf."""
    x = random_matrix(rows, k, dtype_for(kind), 1.0, [k, seed])
    x[3], x[5, 1], x[2, 2] = 0, np.nan, np.inf
    exponents = np.full(rows, system.part_bits - 4, np.int32)
    exponents[[2, 5]] = NONFINITE_ROW, NAN_ROW
    return engine.encode(x, exponents, system)


# Each system with two of the shapes.
@pytest.mark.parametrize(
    ("choice", "shape"),
    [(x, SHAPES[(i + j) % 5]) for i, x in enumerate(SYSTEMS) for j in (0, 2)],
)
def test_every_level_gives_the_same_residues(choice, shape):
    (kind, count), (m, n, k) = choice, shape
    system = residue_system(kind, count)
    found = []
    for name in ("cpu", "reference"):
        engine = get_engine(name)
        left = encode(engine, m, k, kind, system, 1)
        right = encode(engine, n, k, kind, system, 2)
        for count in (0, 1, 2):
            with levels(count):
                residues = engine.multiply(left, right, system)
            found.append(residues[..., :n].copy())
    assert all(same_bits(residues, found[0]) for residues in found)


def extreme_planes(engine, system, rows, k, seed):
    """Encode integers so small that some residues of every modulus are the largest."""
    halves = [p // 2 for p in system.moduli]
    rng = np.random.default_rng(seed)
    x = rng.choice([*halves, *(-h for h in halves), 1, 0], (rows, k)).astype(float)
    return engine.encode(x, np.zeros(rows, np.int32), system)


@pytest.mark.parametrize("count", [1, 2])
def test_the_largest_residues_stay_symmetric(count):
    """128 of the modulus 256, too, and panels that add to one another."""
    engine, system = get_engine("cpu"), residue_system("real", 5)
    panels = [
        [extreme_planes(engine, system, rows, k, [rows, k]) for rows in (70, 83)]
        for k in (129, 40)
    ]

    def multiply():
        before = engine.multiply(*panels[0], system)
        given = engine, *panels[1], system, before
        return [found[..., :83] for found in add_both_ways(*given)]

    with levels(0):
        expected = multiply()
    with levels(count):
        for found in multiply():
            assert same_bits(found, expected[0])


@pytest.mark.parametrize("uplo", ["full", "lower"])
@pytest.mark.parametrize("routine", [td.herk, td.syrk])
def test_updates_and_products_of_arrays(routine, uplo):
    A = random_matrix(150, 90, "complex128", 1.0, 5)
    found = []
    for count in (0, 1, 2):
        with levels(count):
            found.append(routine(A, uplo=uplo, num_moduli=3))
    assert same_bits(found[1], found[0])
    assert same_bits(found[2], found[0])


@pytest.mark.parametrize("value", [3, -1, True, 1.5, "two"])
def test_a_level_that_does_not_exist(value):
    A = np.ones((3, 3))
    with levels(value), raises(PlanError, "setting"):
        td.gemm(A, A)


def test_levels_are_chosen_by_size_and_setting():
    shape, grain, crossovers = (512, 4096, 4096), (16, 16, 4), (400.0, 1300.0)
    assert choose_levels(shape, grain, crossovers) == 1
    assert choose_levels((4096,) * 3, grain, crossovers) == 2
    assert choose_levels((1024,) * 3, grain, crossovers) == 0
    with levels(0):
        assert choose_levels(shape, grain, crossovers) == 0
    with levels(2):
        assert choose_levels((49, 64, 4096), grain, crossovers) == 2
        assert choose_levels((33, 64, 4096), grain, crossovers) == 1
        assert choose_levels((16, 64, 4096), grain, crossovers) == 0


@pytest.mark.parametrize("cores", [2, 16])
def test_many_cores_take_no_level_unasked(cores, monkeypatch):
    taken, plain = [], multiply.multiply_in_quarters

    def record(*given):
        taken.append(given[-1])
        plain(*given)

    for module in (encoding, multiply):  # no others take a level
        monkeypatch.setattr(module, "has_vnni", lambda: True)
    monkeypatch.setattr(multiply, "multiply_in_quarters", record)
    monkeypatch.setattr(multiply, "CROSSOVERS", (1.0,))
    monkeypatch.setattr(multiply, "available_cores", lambda: cores)
    engine, system = get_engine("cpu"), residue_system("2m", 8)
    left = encode(engine, 70, 40, "2m", system, 1)
    with limit_threads(1):
        engine.multiply(left, left, system)
    assert taken == ([1] if cores == 2 else [])
