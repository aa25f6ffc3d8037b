"""Stages of an engine with shifts, beside those of columns that are shifted before."""

import numpy as np

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.strategies import random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.reference.rounding import shift_columns
from twom_dist.moduli import norm_bits, residue_system, scaling_rule

ROWS, K = 21, 70


def make_shifted(dtype):
    x = random_matrix(ROWS, K, dtype, 1.0, 3)
    info = np.finfo(dtype)
    x[1, 2], x[2, 3], x[4] = np.nan, -np.inf, 0
    # Grows from a subnormal number; overflows beside an Inf.
    x[3, 5], x[2, 60] = info.smallest_subnormal, info.max
    shifts = np.arange(K, dtype=np.int32) * 2 - 60
    shifts[5], shifts[60] = 60, 60
    # From either end of the numbers, as far as any shift may be.
    x[:, 7:10], most = 0, info.maxexp - 8
    x[5:7, 7], shifts[7] = (info.max, -info.max), -most
    x[6:9, 8] = info.smallest_subnormal, -info.smallest_subnormal, info.tiny
    x[9, 9], shifts[8:10] = -0.0, most
    return x, shifts


def find_stages(engine, x, shifts, methods):
    """Find what each stage makes of rows whose columns are shifted."""
    given = {} if shifts is None else {"shifts": shifts}
    asks = ("squares", "totals", "octaves")
    known = engine.measure(x, norm_bits(K), asks, **given)
    largest, sums = known.scales()
    one = engine.measure(x, norm_bits(K), ("squares",), largest=largest, **given)
    octaves = engine.octaves(x, largest, **given)
    found = {"largest": largest, "sums": one.squares, "octaves": octaves}
    found |= {"squares": sums, "totals": known.totals, "counts": known.octaves}
    for method, count in methods:
        system = residue_system(method, count)
        rule = scaling_rule(system, K)
        assert rule is not None
        e = engine.choose_exponents(largest, sums, rule)
        for conjugate in (False, True):
            encoded = engine.encode(x, e, system, conjugate=conjugate, **given)
            found[f"planes of {method}, {conjugate}"] = encoded.residues()
    return found


def assert_shifts_are_exact(engine, dtype, layouts):
    """Compare with a matrix that was shifted before, stage by stage and bit by bit."""
    x, shifts = make_shifted(dtype)
    real = np.dtype(dtype).kind == "f"
    methods = [("real", 9)] if real else [("2m", 8), ("eisenstein", 8), ("3m", 5)]
    with np.errstate(over="ignore"):
        scaled = shift_columns(x, shifts)
    expected = find_stages(get_engine("reference"), scaled, None, methods)
    for name, layout in layouts.items():
        found = find_stages(engine, layout(x), shifts, methods)
        for stage, value in expected.items():
            assert same_bits(found[stage], value), (name, stage)


def assert_large_entries_stay_finite(dtype, engine="auto"):
    """Multiply where all shifts but the last limit would carry entries past the end.

    One side has columns so small that shifts are centred far from 0; entries of the
    other are near the largest number. Either side may be either.
    """
    info = np.finfo(dtype)
    rng = np.random.default_rng(0)
    A, B = rng.uniform(1, 2, (20, 40)), rng.uniform(1, 2, (40, 30))
    A[:, ::2] *= 2.0**-100
    B[1::2] *= 2.0**-20
    A, B = A.astype(dtype), (B * 2.0 ** (info.maxexp - 7)).astype(dtype)
    expected = A @ B
    for x, y, exact in ((A, B, expected), (B.T, A.T, expected.T)):
        found = td.gemm(x, y, engine=engine, equilibrate=True)
        np.testing.assert_allclose(found, exact, rtol=8 * info.eps)
