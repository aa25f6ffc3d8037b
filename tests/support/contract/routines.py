"""Routines of arrays in memory: the CPU's bits, in every call of one shape.

The fixture `compute` calls a routine by the engine, of NumPy's arrays and for them.
What is drawn besides the call decides what an engine may keep from one to the next:
other values at other addresses, arrays that are one, results in arrays of the caller's.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.strategies import DTYPES, LAYOUTS, random_matrix
from twom_dist.errors import AccuracyError, AccuracyWarning

CALLS, SIZES = 3, (1, 2, 5, 17, 33, 40, 66)
TARGETS = ({}, {}, {"accuracy": "normwise"}, {"num_moduli": 3}, {"num_moduli": 8})
NATIVE = [x for x in LAYOUTS if x != "big-endian"]


@dataclass
class Drawn:
    name: str
    dtype: str
    shapes: list[tuple[int, ...]]
    layouts: list[str]
    options: dict[str, Any]
    phi: float
    bad: bool
    twins: list[bool]
    out: bool

    def matrices(self, seed):
        found = []
        for i, shape in enumerate(self.shapes):
            if i > 0 and self.twins[seed] and shape == self.shapes[0]:
                found.append(found[0])
                continue
            rng, rows = np.random.default_rng([seed, i]), int(np.prod(shape[:-1]))
            x = random_matrix(rows, shape[-1], self.dtype, self.phi, [seed, i])
            if self.bad:
                places = rng.integers(x.size, size=3)
                x.flat[places] = rng.permutation([np.nan, np.inf, -np.inf, 0])[:3]
            found.append(LAYOUTS[self.layouts[i]](x).reshape(shape))
        return found


@st.composite
def calls(draw):
    def pick(*values):
        return draw(st.sampled_from(values))

    name, dtype = pick("gemm", "gemm", "herk", "syrk", "her2k", "syr2k"), pick(*DTYPES)
    m, n, k = (pick(*SIZES) for _ in "mnk")
    if draw(st.booleans()):
        n = k = m
    options = {"method": pick("2m", "2m", "3m", "4m", "hybrid")}
    if name == "gemm":
        options |= {"op_a": pick(*"NTC"), "op_b": pick(*"NTC")}
        options["equilibrate"] = pick(None, None, None, True)
    else:
        n, options["op"] = m, pick("N", "T" if name[0] == "s" else "C")
        options["uplo"] = pick("full", "lower", "upper")
    op_a = options.get("op_a", options.get("op"))
    shapes = [(m, k) if op_a == "N" else (k, m)]
    if name == "gemm":
        shapes.append((k, n) if options["op_b"] == "N" else (n, k))
    shapes += shapes * name.endswith("2k")
    is_complex = dtype[0] == "c" and name != "herk"
    options["alpha"] = pick(1, 1, -1.5, 0, *([0.5 - 2j] if is_complex else []))
    if draw(st.booleans()):
        options["beta"] = pick(1, -0.5)
        shapes.append((m, n))
    if not name.endswith("2k") and pick(False, False, False, True):
        kind = np.dtype(dtype).char.lower() if name == "herk" else dtype
        options["diag"] = random_matrix(1, k, kind)[0]
    stack = pick((), (), (3,))
    return Drawn(
        name=name,
        dtype=dtype,
        shapes=[(*stack, *shape) for shape in shapes],
        layouts=[pick(*NATIVE) for _ in shapes],
        options=options | pick(*TARGETS),
        phi=pick(0.0, 1.0, 3.0),
        bad=pick(False, False, True),
        twins=[draw(st.booleans()) for _ in range(CALLS)],
        out=pick(False, False, True) and not stack,
    )


def check(compute, call):
    routine = getattr(td, call.name)
    for seed in range(CALLS):  # by stages, by what was kept of them, by a guess
        given = call.matrices(seed)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error", AccuracyWarning)
            try:
                expected = routine(*given, engine="cpu", **call.options)
            except (AccuracyError, AccuracyWarning):
                assume(False)
            out = np.empty_like(expected) if call.out else None
            found = compute(routine, *given, out=out, **call.options)
        assert out is None or found is out
        assert same_bits(found, expected), seed


@settings(max_examples=60, suppress_health_check=[*HealthCheck])
@given(call=calls())
def test_calls_have_the_bits_of_the_cpu(compute, call):
    check(compute, call)


@pytest.mark.nightly
@settings(max_examples=400, derandomize=False, suppress_health_check=[*HealthCheck])
@given(call=calls())
def test_more_calls_have_the_bits_of_the_cpu(compute, call):
    check(compute, call)
