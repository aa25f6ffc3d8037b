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
from tests.support.expect import same_bits
from tests.support.strategies import (
    DTYPES,
    LAYOUTS,
    ROUTINES,
    diagonal_for,
    draw_options,
    pick,
    random_matrix,
    shapes_of,
)
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
    same_operand: list[bool]
    out: bool

    def matrices(self, seed):
        found = []
        for i, shape in enumerate(self.shapes):
            if i > 0 and self.same_operand[seed] and shape == self.shapes[0]:
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
    name, dtype = pick(draw, "gemm", *ROUTINES), pick(draw, *DTYPES)
    m, n, k = (pick(draw, *SIZES) for _ in "mnk")
    if draw(st.booleans()):
        n = k = m
    options = draw_options(draw, name, dtype, TARGETS)
    shapes = shapes_of(name, options, m, n if name == "gemm" else m, k)
    if not name.endswith("2k") and pick(draw, False, False, False, True):
        options["diag"] = diagonal_for(name, dtype, k)
    stack = pick(draw, (), (), (3,))
    return Drawn(
        name=name,
        dtype=dtype,
        shapes=[(*stack, *shape) for shape in shapes],
        layouts=[pick(draw, *NATIVE) for _ in shapes],
        options=options,
        phi=pick(draw, 0.0, 1.0, 3.0),
        bad=pick(draw, False, False, True),
        same_operand=[draw(st.booleans()) for _ in range(CALLS)],
        out=pick(draw, False, False, True) and not stack,
    )


def check(compute, call):
    routine = getattr(td, call.name)
    for seed in range(CALLS):  # by stages, by what was kept of them, by a guess
        given = call.matrices(seed)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.filterwarnings("error", ".*product is native", AccuracyWarning)
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
@pytest.mark.timeout(3600)
@settings(max_examples=400, derandomize=False, suppress_health_check=[*HealthCheck])
@given(call=calls())
def test_more_calls_have_the_bits_of_the_cpu(compute, call):
    check(compute, call)
