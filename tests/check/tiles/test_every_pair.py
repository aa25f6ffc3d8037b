"""The default holds for every pair: what hides, and the same for every cut."""

from dataclasses import replace
from math import sqrt

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.families import KINDS
from tests.support.hidden import assert_never_worse, hidden_pairs, largest_errors
from tests.support.strategies import DTYPES, random_matrix, spread_matrix
from twom_dist.moduli import NONFINITE_ROW, norm_bits
from twom_dist.moduli.accuracy import (
    fewest_systems,
)
from twom_dist.problem.problem import of_arrays
from twom_dist.run.collection import look_at_arrays
from twom_dist.tiles.grid import Grid, cut_inner
from twom_dist.tiles.look import settle

# --- what hides -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_hide_among_others_are_found(seed):
    for given in hidden_pairs(range(129, 260), 200, 1, seed):
        assert_never_worse(*given)


def test_two_rows_that_meet_nowhere_but_where_both_are_tiny():
    rng, tiny = np.random.default_rng(0), 1e-18
    A = rng.standard_normal((300, 256))
    A[40, :128], A[40, 128:], A[41, :128], A[41, 128:] = 1, tiny, tiny, 1
    exact = float(A[40] @ A[41])
    assert exact == pytest.approx(2.56e-16)
    for found in (td.dsyrk(A), td.gemm(A, A, op_b="T")):
        assert found[40, 41] == pytest.approx(exact, rel=1e-13)
    lazy = da.from_array(A, chunks=(70, 100))
    assert same_bits(td.syrk(lazy).compute(scheduler="sync"), td.dsyrk(A))
    found = td.explain(td.syrk, A)
    assert (found.closed_by, found.num_moduli > 25) == ("pairs", True)


def test_two_rows_may_meet_in_the_last_tile_alone():
    A = np.random.default_rng(0).standard_normal((8, 30))
    A[2:4] = 0
    A[2, 0] = A[3, 1] = 1
    A[2:4, -1] = 1e-9
    lazy = da.from_array(A, chunks=(8, 10))
    assert td.explain(td.syrk, lazy) == td.explain(td.syrk, A)


# --- rounding errors ------------------------------------------------------------------


def gaussian(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def test_measured_rounding_errors_save_a_modulus():
    a, b = gaussian(40, 500), gaussian(500, 30, seed=1)
    found = td.explain(td.gemm, a, b)
    assert (found.num_moduli, found.closed_by) == (15, "errors")
    assert 1.46 < found.rho < 2.4
    error, native = largest_errors(a, b, td.gemm(a, b), a @ b)
    assert error <= native
    for size in (13, 500):
        x, y = (da.from_array(t, chunks=size) for t in (a, b))
        assert td.explain(td.gemm, x, y) == found
    assert td.explain(td.gemm, a, b, engine="reference") == found


def test_rounding_errors_of_eisenstein_integers_are_not_measured():
    phases = np.exp(2j * np.pi * np.random.default_rng(0).random((20, 500)))
    x = np.where(np.arange(500) % 3 > 0, phases, 0)
    found = td.explain(td.gemm, x, x.T, method="eisenstein")
    spec = of_arrays(*td.gemm.ask(x, x.T, method="eisenstein")[:3]).spec
    (_, first), _ = fewest_systems("eisenstein", 500, 2.0**-53)
    assert first < found.rho**2 < 2.75 * first
    assert (found.closed_by, settle.may_save(found.rho**2, spec)) == ("sums", False)


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
    found = td.explain(td.gemm, a, b)
    assert (found.num_moduli, found.closed_by) == (16, "sums")
    usual = td.explain(td.gemm, a * 1.1, b * 1.1)
    assert (usual.num_moduli, usual.closed_by) == (15, "errors")
    assert usual.rho == pytest.approx(found.rho, rel=1e-3)
    # Those of either side, and a single row decides, wherever its tile is.
    for x, y in ((a, b * 1.1), (a * 1.1, b)):
        assert td.explain(td.gemm, x, y).num_moduli == 16
        assert same_bits(td.gemm(np.stack([x, x]), y)[1], td.gemm(x, y))
    mixed = a * 1.1
    mixed[17] = a[17]
    assert td.explain(td.gemm, mixed, b * 1.1).num_moduli == 16
    lazy = da.from_array(mixed, chunks=(6, 300)), da.from_array(b * 1.1, chunks=300)
    assert td.explain(td.gemm, *lazy).num_moduli == 16
    stack = np.stack([a, a * 1.1, mixed])
    each = [td.gemm(x, b * 1.1) for x in stack]
    assert same_bits(td.gemm(stack, b * 1.1), np.stack(each))


def test_the_bound_of_measured_errors_is_that_of_all_halves():
    spec = of_arrays(*td.gemm.ask(gaussian(2, 500), gaussian(500, 2))[:3]).spec
    first, second = (x for _, x in fewest_systems("2m", 500, 2.0**-53))
    halves = 2 * 500 * 4.0 ** (norm_bits(500) - 1)
    assert settle.suffice(spec, sqrt(first * 0.999), halves)
    assert not settle.suffice(spec, sqrt(first * 1.001), halves)
    assert settle.suffice(spec, sqrt(first * 2.99), halves / 3)
    assert not settle.suffice(spec, sqrt(first * 3.01), halves / 3)
    assert settle.may_save(first * 1.01, spec)
    assert not settle.may_save(first, spec)
    assert not settle.may_save(second, spec)


# --- the same for every tiling, engine and law ----------------------------------------


@sample("kind", range(len(KINDS) + 4), range(1, len(KINDS) + 4, 2))
def test_moduli_and_rho_do_not_depend_on_the_cut(kind):
    rng = np.random.default_rng(kind)
    a, b = random_matrix(50, 60, phi=1.0, seed=kind), random_matrix(60, 40, seed=9)
    if kind < len(KINDS):
        a, b = KINDS[kind](a, b, rng, 60)
    elif kind == len(KINDS):
        a, b = (random_matrix(*x.shape, phi=4.0, seed=kind) for x in (a, b))
    elif kind == len(KINDS) + 1:
        # One entry of each row is all that digits see.
        a, b = (np.eye(*x.shape) + 1e-5 * x for x in (a, b))
    else:
        a[: 3 * (kind - len(KINDS)), ::2] *= 1e-9
    a[3], a[5, 5], b[7, 2] = 0, np.nan, np.inf
    expected = td.explain(td.gemm, a, b)
    for m, k, n in ((50, 60, 40), (17, 7, 40), (50, 31, 9), (1, 60, 40)):
        x, y = da.from_array(a, chunks=(m, k)), da.from_array(b, chunks=(k, n))
        assert td.explain(td.gemm, x, y) == expected
    assert td.explain(td.gemm, a, b, engine="reference") == expected
    order, rows = rng.permutation(60), rng.permutation(50)
    powers = 2.0 ** rng.integers(-30, 30, (50, 1))
    for x, y in ((a[:, order], b[order]), (a[rows], b), (a * powers, b), (1j * a, b)):
        found = td.explain(td.gemm, x, y)
        assert (found.num_moduli, found.rho) == (expected.num_moduli, expected.rho)
    turned = td.explain(td.gemm, b.T, a.T)
    assert (turned.num_moduli, turned.rho) == (expected.num_moduli, expected.rho)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_tiles_are_those_of_the_whole(engine, dtype):
    x = spread_matrix(30, 50, dtype)
    largest = engine.largest_exponents(x)
    whole = engine.row_sums(x, largest, 20)
    parts = [engine.row_sums(t, largest, 20) for t in (x[:, :7], x[:, 7:])]
    e = np.where(largest >= NONFINITE_ROW, largest, 30).astype(np.int32)
    for place in (0, 1):
        assert (whole[place] == parts[0][place] + parts[1][place]).all()
    errors = [engine.error_sums(t, e, 20) for t in (x, x[:, :7], x[:, 7:])]
    assert (errors[0] == errors[1] + errors[2]).all()


@sample(
    ("layers", "turn"),
    [(3, (0, 0)), (3, (2, 2)), (1, (2, 3))],
    [(3, (2, 2)), (1, (2, 3))],
)
@pytest.mark.parametrize(
    "kind", ["errors", "phi 2", "phi 4", "sparse", "hidden", "far"]
)
def test_tasks_of_some_pairs_or_of_some_of_k_find_the_same(kind, layers, turn):
    """Layers of k, whose strips no task has together; turns of several pairs."""
    a, b = gaussian(30, 500), gaussian(500, 20, seed=1)
    if kind.startswith("phi"):
        a, b = (random_matrix(*x.shape, phi=float(kind[4:])) for x in (a, b))
    elif kind == "sparse":
        a, b = (np.where(abs(x) > 2.7, x, 0) for x in (a, b))
    elif kind == "hidden":
        a[3, ::2], a[7, 1::2], b[::2, 4] = 1e-9, 1e-9, 1e-9
    elif kind == "far":
        a[:, ::2], b[1::2] = 1e-200 * a[:, ::2], 1e-200 * b[1::2]
    a[4], a[5, 5] = 0, np.nan
    for routine, given in ((td.gemm, (a, b)), (td.herk, (a,))):
        options = {"equilibrate": False} if routine is td.gemm else {}
        expected = td.explain(routine, *given, **options)
        spec = of_arrays(*routine.ask(*given, **options)[:3]).spec
        spec = replace(spec, lazy=True, turn=turn)
        x = da.from_array(a, chunks=(11, 60))
        y = x if routine is td.herk else da.from_array(b, chunks=(60, 8))
        k, n = x.chunks[1], x.chunks[0] if routine is td.herk else y.chunks[1]
        grid = Grid(x.chunks[0], n, k, cut_inner(len(k), layers, 1, 1))
        found = look_at_arrays(x, y, grid, spec, lambda z: z.compute(scheduler="sync"))
        rest = found.spec.closed_by, found.spec.rho, len(found.spec.moduli)
        assert rest == (expected.closed_by, expected.rho, expected.num_moduli)
