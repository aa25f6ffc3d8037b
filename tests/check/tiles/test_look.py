"""The default holds for every pair: what hides, by exact numbers, however cut."""

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases, sample
from tests.support.expect import same_bits
from tests.support.families import KINDS, hard_pairs, make_hard
from tests.support.hidden import hidden_pairs, largest_errors
from tests.support.oracle import ExactProduct
from tests.support.splits import split_along_k
from tests.support.strategies import random_matrix
from twom_dist.moduli import residue_system, scaling_rule
from twom_dist.problem.problem import of_arrays
from twom_dist.run import collection
from twom_dist.tiles.dask.graph import Operands
from twom_dist.tiles.grid import Grid, cut_inner


def gaussian(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def in_chunks(*given):
    return [da.from_array(x, chunks=chunks) for x, chunks in given]


@sample("seed", range(13), range(3))
def test_rows_that_hide_among_others_are_found(seed):
    """In larger matrices at night."""
    sizes = (range(129, 260), 200) if seed < 3 else (range(129, 1500), 700)
    for name, a, b, rows, columns in hidden_pairs(*sizes, seed):
        c = td.gemm(a, b)
        for x, y, own in ((a[rows], b, c[rows]), (a, b[:, columns], c[:, columns])):
            found, native = largest_errors(x, y, own, x @ y)
            assert found <= max(2 * native, sqrt(a.shape[1])), name


def test_two_rows_that_meet_nowhere_but_where_both_are_tiny():
    A, tiny = np.random.default_rng(0).standard_normal((300, 256)), 1e-18
    A[40, :128], A[40, 128:], A[41, :128], A[41, 128:] = 1, tiny, tiny, 1
    exact = float(A[40] @ A[41])
    for found in (td.dsyrk(A), td.gemm(A, A, op_b="T")):
        assert found[40, 41] == pytest.approx(exact, rel=1e-13)
    (lazy,) = in_chunks((A, (70, 100)))
    assert same_bits(td.syrk(lazy).compute(scheduler="sync"), td.dsyrk(A))
    found = td.explain(td.syrk, A)
    assert (found.decided_by, found.num_moduli > 25) == ("pairs", True)


@cases("place", [(0, 0), (0, 7), (7, 0), (7, 7)])
def test_one_pair_of_many_tiles_decides(place):
    """In the last tile along k alone, and wherever its tile of the result is."""
    A, B = np.zeros((8, 30)), np.zeros((30, 8))
    A[:, :20], B[:20] = 1, 1
    A[place[0]], B[:, place[1]] = 0, 0
    A[place[0], 0] = B[1, place[1]] = 1
    A[place[0], -1] = B[-1, place[1]] = 1e-9
    expected = td.explain(td.gemm, A, B, equilibrate=False)
    assert expected.num_moduli > 20
    lazy = in_chunks((A, (3, 10)), (B, (10, 3)))
    assert td.explain(td.gemm, *lazy, equilibrate=False) == expected


@cases("row", [5, 2090])
def test_one_pair_of_more_rows_than_are_looked_at_together_decides(row):
    """All of them are left open by their angles, and none by their entries."""
    A = np.random.default_rng(0).uniform(0.5, 1, (2100, 32))
    B = A[:40].T.copy()
    A[::2, :16], A[1::2, 16:], B[:16, ::2], B[16:, 1::2] = 0.1, 0.1, 0.1, 0.1
    A[row], B[:, 2] = 0, 0
    A[row, 3] = B[4, 2] = 1
    A[row, 30] = B[30, 2] = 1e-9
    for a, b in ((A, B), in_chunks((A, -1), (B, -1))):
        found = td.explain(td.gemm, a, b, equilibrate=False)
        assert (found.decided_by, found.num_moduli > 20) == ("pairs", True)


def test_measured_rounding_errors_save_a_modulus():
    a, b = gaussian(40, 500), gaussian(500, 30, seed=1)
    found = td.explain(td.gemm, a, b)
    assert (found.num_moduli, found.decided_by) == (15, "errors")
    assert 1.46 < found.rho < 2.4
    error, native = largest_errors(a, b, td.gemm(a, b), a @ b)
    assert error <= native
    for size in (13, 500):
        assert td.explain(td.gemm, *in_chunks((a, size), (b, size))) == found
    assert td.explain(td.gemm, a, b, engine="reference") == found


def test_crafted_rounding_errors_save_none():
    """All a half: a quarter of the entries are 0, so that angles are not too small."""
    rng = np.random.default_rng(0)

    def halves():
        shape = 20, 500
        parts = (np.floor(rng.uniform(2**49.5, 2**50, shape)) + 0.5 for _ in "ri")
        x = next(parts) + 1j * next(parts)
        x[rng.random(shape) < 0.25] = 0
        return x

    a, b = halves(), halves().T
    usual = td.explain(td.gemm, a * 1.1, b * 1.1)
    assert (usual.num_moduli, usual.decided_by) == (15, "errors")
    # Those of either side, and a single row decides, wherever its tile is.
    mixed = a * 1.1
    mixed[17] = a[17]
    for x, y in ((a, b), (a, b * 1.1), (a * 1.1, b), (mixed, b * 1.1)):
        found = td.explain(td.gemm, x, y)
        assert (found.num_moduli, found.decided_by) == (16, "sums")
        assert found.rho == pytest.approx(usual.rho, rel=1e-3)
        assert same_bits(td.gemm(np.stack([x, a * 1.1]), y)[0], td.gemm(x, y))
    lazy = in_chunks((mixed, (6, 300)), (b * 1.1, 300))
    assert td.explain(td.gemm, *lazy).num_moduli == 16


@pytest.mark.parametrize("count", [3, 15])
def test_rounding_errors_bound_those_of_the_encoded_rows(engine, count):
    """With few moduli errors have more bits than are summed."""
    x = random_matrix(5, 40, "complex128", 2.0, 1)
    x[1], x[2, 3], x[3] = 0, np.nan, 2.0 ** np.arange(40) if count > 3 else 0
    rule = scaling_rule(residue_system("2m", count), 40)
    measured = engine.measure(x, rule.norm_bits, ("squares",))
    e = engine.choose_exponents(*measured[:2], rule)
    found = engine.error_sums(x, measured, rule)
    assert found[[1, 2, 3]].tolist() == [0, 0, 0]
    for row, s, total in zip(x[[0, 4]], e[[0, 4]], found[[0, 4]], strict=True):
        parts = [Fraction(t) * Fraction(2) ** int(s) for t in (*row.real, *row.imag)]
        exact = sum((t - round(t)) ** 2 for t in parts) * 4**rule.norm_bits
        assert exact <= int(total) <= exact * (1 + Fraction(1, 1000))


def exact_square(a, b):
    """Find rho^2 of the rows of a and b, which meet somewhere, rounded by little."""
    product = ExactProduct(a, b.T)
    ratios = product.norms.ratio(product.magnitudes)
    return Fraction(ratios[np.isfinite(ratios)].max(initial=0)) ** 2


def test_what_explain_says_is_at_least_rho():
    """On data of every spread and of every step."""
    ways = set()
    for name, (a, b) in hard_pairs(120, 6, 4):
        found = td.explain(td.gemm, a, b, equilibrate=False)
        if a.shape[1] <= 50 and found.num_moduli:
            margin = 1 + Fraction(1, 2**40)
            assert exact_square(a, b.T) <= Fraction(found.rho) ** 2 * margin, name
            ways.add(found.decided_by)
    assert ways == {"sums", "errors", "octaves", "pairs"}


def pair_of(kind):
    a, b = random_matrix(50, 60, phi=1.0, seed=3), random_matrix(60, 40, seed=9)
    if kind in KINDS:
        a, b = make_hard(kind, a, b, np.random.default_rng(3), 60)
    elif kind == "spread":
        a, b = (random_matrix(*x.shape, phi=4.0, seed=3) for x in (a, b))
    elif kind == "identity":
        a, b = (np.eye(*x.shape) + 1e-5 * x for x in (a, b))
    elif kind == "far":  # squares of what is tiny underflow
        a[:, ::2], b[1::2] = 1e-200 * a[:, ::2], 1e-200 * b[1::2]
    elif kind == "errors":
        a, b = gaussian(50, 500), gaussian(500, 40, seed=1)
    else:
        a[3, ::2], a[7, 1::2], b[::2, 4] = 1e-9, 1e-9, 1e-9
    a[4], a[5, 5], b[7, 2] = 0, np.nan, np.inf
    return a, b


HARD = [*KINDS, "spread", "identity", "errors", "hidden"]


@sample("kind", HARD, [*KINDS[::3], *HARD[-4:]])
def test_moduli_and_rho_do_not_depend_on_the_cut(kind):
    a, b = pair_of(kind)
    k, rng = a.shape[1], np.random.default_rng(0)
    expected, of_a = td.explain(td.gemm, a, b), td.explain(td.herk, a)
    assert td.explain(td.gemm, a, b, engine="reference") == expected
    for split, m, steps, n in ((1, 17, 9, 40), (3, 11, k // 9, 8)):
        x, y = in_chunks((a, (m, steps)), (b, (steps, n)))
        with split_along_k(split, 1, seed=split):
            assert td.explain(td.gemm, x, y) == expected
            assert td.explain(td.herk, x) == of_a
    order, rows = rng.permutation(k), rng.permutation(50)
    powers = 2.0 ** rng.integers(-30, 30, (50, 1))
    alike = [(a[:, order], b[order]), (a[rows], b), (a * powers, b), (b.T, a.T)]
    for x, y in [*alike, (1j * a, b)]:
        found = td.explain(td.gemm, x, y)
        assert (found.num_moduli, found.rho) == (expected.num_moduli, expected.rho)


@pytest.mark.filterwarnings("ignore::twom_dist.errors.AccuracyWarning")
@cases("kind", ["hidden", "spread", "errors", "far"])
def test_tasks_of_several_pairs_find_the_same(kind):
    """Blocks that do not divide the rows and columns."""
    a, b = pair_of(kind)
    expected = td.explain(td.gemm, a, b, equilibrate=False)
    spec = of_arrays(td.gemm.ask(a, b, equilibrate=False)).spec
    spec = replace(spec, lazy=True)
    x, y = in_chunks((a, (11, 60)), (b, (60, 8)))
    layers = cut_inner(len(x.chunks[1]), 1, 1, 1)
    grid = Grid(x.chunks[0], y.chunks[1], x.chunks[1], layers, pair_block=(2, 3))
    found = collection.look_at_arrays(
        Operands(x, y), grid, spec, lambda z: z.compute(scheduler="sync")
    ).spec
    rest = found.decided_by, found.rho, len(found.moduli)
    assert rest == (expected.decided_by, expected.rho, expected.num_moduli)
