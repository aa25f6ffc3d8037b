"""Moduli of the matrices of a stack, found for all at once where they are certain.

A matrix of a stack takes the moduli that it takes alone: `estimate` finds them from
exact bounds of ``|A| |B|``, matrix by matrix, which takes longer than small products.
This module brackets those bounds, in units of the norms, as cosines between rows of |A|
and columns of |B|. It begins with their sums: with ``u = s/k + d``, where d sums to 0,

    u v = s_u s_v / k + d_u d_v >= s_u s_v / k - sqrt((1 - s_u^2/k) (1 - s_v^2/k))

by Cauchy-Schwarz. If that leaves the moduli open, one product in float32 follows, of
only those rows and columns whose sums are too small to tell. For most matrices both
ends of the bracket give the same moduli; `estimate` is asked about the others.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...kernels.family import convert, family_of, namespace
from ...moduli import ZERO_ROW, ResidueSystem, norm_bits
from ...moduli.accuracy import componentwise_system
from ...typing import Array
from ..spec import SIDES, Spec, as_rows, load_engine
from .equilibration import may_gain
from .estimate import SAMPLE, Measured, choose_rows, magnitude_bits

# Steps per power of two to which ratios are rounded: each is 1/16 of a bit of M.
_STEPS = 16


class Seen(NamedTuple):
    """One side of a stack: its rows, their measurements, their sums over norms."""

    rows: Array
    measured: Measured
    row_sums: Array


def certain_systems(
    a: Array, b: Array, measured: Sequence[Measured], spec: Spec
) -> list[ResidueSystem | None]:
    """Return the residue system of each matrix, or None where it is uncertain.

    Parameters
    ----------
    a, b : (count, rows, columns)
        Stacks; b is a where the spec says twins.
    measured : sequence of Measured
        Of (count, rows): of op(A), and of op(B)^T unless that is the same.
    spec : Spec
        With a grade.
    """
    engine, bits = load_engine(spec), norm_bits(spec.k)
    sides = [
        (as_rows(x, side, spec.op(side)), known)
        for x, side, known in zip((a, b), SIDES, measured, strict=False)
    ]
    open_ = np.ones(len(a), bool)
    if spec.equilibrate:
        columns = [engine.column_exponents(x, known.largest) for x, known in sides]
        open_ = ~may_gain(*(convert(x[:, 0], "numpy") for x in columns))
    # Rounded down, since bounds grow with these sums.
    down = 1 - _rounding(spec.k)
    seen = [
        Seen(
            x, known, down * _fetch(engine.row_sums(x, known.largest, known.sums, bits))
        )
        for x, known in sides
    ]
    found: list[ResidueSystem | None] = [None] * len(a)
    least = _bound_by_sums(*_smallest(seen), spec.k)
    _settle(found, np.arange(len(a)), (least, np.ones(len(a))), seen, spec)
    left = [i for i, system in enumerate(found) if system is None and open_[i]]
    found = [x if may else None for x, may in zip(found, open_, strict=True)]
    if left:
        seen = [
            _sample(_choose(x, left) if len(left) < len(a) else x, spec) for x in seen
        ]
        _settle(found, np.array(left), _bound_by_products(seen, spec), seen, spec)
    return found


def _smallest(seen: Sequence[Seen]) -> tuple[Array, Array]:
    """Return the smallest sum of each matrix, of both sides."""
    return seen[0].row_sums.min(axis=1), seen[-1].row_sums.min(axis=1)


def _bound_by_products(seen: Sequence[Seen], spec: Spec) -> tuple[Array, Array]:
    """Bound the smallest cosines by products of some rows and columns.

    The others are left out, since their sums show that their cosines are at least
    `safe`, for which no further modulus is needed.
    """
    factor, cut = _losses([x.measured for x in seen], spec)
    safe = (_least_safe(spec.method, spec.k, spec.unit_roundoff) + cut) / factor
    smallest = _smallest(seen)
    operands = []
    for x, other in zip(seen, smallest[::-1], strict=False):
        bounds = _bound_by_sums(x.row_sums, other[:, np.newaxis], spec.k)
        matter = convert(bounds < safe[:, np.newaxis], family_of(x.rows))
        largest, sums, _ = x.measured
        xp = namespace(largest)
        operands.append((x.rows, (xp.where(matter, largest, ZERO_ROW), sums)))
    (x, of_x), (y, of_y) = operands[0], operands[-1]
    engine, bits = load_engine(spec), norm_bits(spec.k)
    cosines = _fetch(engine.smallest_cosines(x, y, of_x, of_y, bits))
    return np.minimum(cosines, safe), cosines


def _fetch(x: Array) -> Array:
    return convert(x, "numpy").astype(np.float64)


def _choose(seen: Seen, places: list[int]) -> Seen:
    known = seen.measured.take(places)
    return Seen(seen.rows[places], known, seen.row_sums[places])


def _bound_by_sums(left: Array, right: Array, k: int) -> Array:
    """Bound cosines from below by the sums of rows: the bound grows with both."""
    rest = (np.maximum(0, 1 - x * x / k) for x in (left, right))
    bound: Array = left * right / k - np.sqrt(prod(rest))
    return bound


def _sample(seen: Seen, spec: Spec) -> Seen:
    """Take the rows of each matrix that `estimate` looks at, some perhaps twice."""
    count, size = seen.row_sums.shape
    if spec.grade != "native" or size <= SAMPLE:
        return seen
    on_host = seen.measured.on_host()
    rows = [choose_rows([on_host.take(i)], spec)[0] for i in range(count)]
    # Without any, row 0 stands in: it is 0 or not finite, and so left out later.
    chosen = np.array([np.resize(t if len(t) else [0], SAMPLE) for t in rows])
    matrices = np.arange(count)[:, np.newaxis]
    which = matrices, convert(chosen, family_of(seen.rows))
    known = seen.measured.take(which)
    return Seen(seen.rows[which], known, seen.row_sums[matrices, chosen])


def _settle(
    found: list[ResidueSystem | None],
    places: Array,
    cosines: tuple[Array, Array],
    seen: Sequence[Seen],
    spec: Spec,
) -> None:
    """Note the systems of matrices for which both bounds of the cosine agree on one."""
    factor, cut = _losses([x.measured for x in seen], spec)
    least = cosines[0] * factor - cut
    most = cosines[1] * (1 + _rounding(spec.k))
    # Far above the cosines for which `estimate` takes largest terms instead of sums.
    known = least >= np.maximum(8 * cut, 2.0**-60)
    given = spec.method, spec.k, spec.unit_roundoff
    # Ratios are 1 over squared cosines; their steps are rounded outwards.
    low, high = (-2 * _STEPS * np.log2(np.minimum(x[known], 1)) for x in (most, least))
    steps = (
        np.floor(low).astype(int).tolist(),
        (np.floor(high) + 1).astype(int).tolist(),
    )
    for place, first, last in zip(places[known].tolist(), *steps, strict=True):
        system = _system_at(*given, first)
        if system == _system_at(*given, last):
            found[place] = system


def _losses(measured: Sequence[Measured], spec: Spec) -> tuple[float, Array]:
    """Return f and c: `estimate` finds at least f times a cosine minus c.

    Its magnitudes are cut to 8 bits and then, in units of each row's power of two, to b
    bits: each is off by at most 2^-7 of itself and 2^-b, and they are at most sqrt(2).
    Norms are in these units, too.
    """
    smallest: Any = 1.0  # of each matrix of a stack
    for x in (measured[0], measured[-1]):
        sums = convert(x.sums, "numpy").astype(np.float64)
        smallest *= np.sqrt(
            np.where(sums > 0, sums, np.inf).min(axis=-1, initial=np.inf)
        )
    smallest *= 2.0 ** (-2 * norm_bits(spec.k))
    cut = 4 * spec.k * 2.0 ** -magnitude_bits(spec.k) / smallest
    return (1 - _rounding(spec.k)) * (1 - 2.0**-7) ** 2, cut


def _rounding(k: int) -> float:
    """Bound the relative error of a cosine in float32."""
    return (k + 8) * 2.0**-23


@lru_cache(maxsize=64)
def _least_safe(method: str, k: int, u: float) -> float:
    """Return a cosine above which no more moduli are needed than for cosine 1."""
    steps = 0
    first = _system_at(method, k, u, 0)
    while steps < 16 * _STEPS and _system_at(method, k, u, steps + 1) == first:
        steps += 1
    # Half a step before the last one, so that rounding outwards ends there.
    return float(2.0 ** (-(steps - 0.5) / (2 * _STEPS)))


@lru_cache(maxsize=1024)
def _system_at(method: str, k: int, u: float, step: int) -> ResidueSystem | None:
    return componentwise_system(method, k, 2.0 ** (step / _STEPS), u)
