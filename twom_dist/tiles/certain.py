"""Moduli of the matrices of a stack, where a look at all of them at once settles them.

A matrix of a stack takes the moduli that it takes alone: `estimate` finds them from
exact bounds of ``|A| |B|``, matrix by matrix, which takes longer than small products.
Here one product in float32 brackets those bounds. Most matrices lie within one number
of moduli, and `estimate` is asked about the others alone.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import floor, log2
from typing import Any

import numpy as np

from ..accuracy import componentwise_system
from ..kernels.family import convert
from ..moduli import ResidueSystem, norm_bits
from ..typing import Array
from .equilibration import may_gain
from .estimate import SAMPLE, Measured, magnitude_bits
from .spec import SIDES, Spec, as_rows, load_engine

# Steps of a power of two in which ratios are told apart: 1/16 of a bit of M.
_STEPS = 16


def certain_systems(
    a: Array, b: Array, measured: Sequence[Measured], spec: Spec
) -> list[ResidueSystem | None]:
    """Return the residue system of each matrix, or None where this cannot tell it.

    Parameters
    ----------
    a, b : (count, rows, columns)
        Stacks; b is a where the spec says twins.
    measured : sequence of Measured
        Of (count, rows): of op(A), and of op(B)^T unless that is the same.
    spec : Spec
        With a grade.
    """
    sides = tuple(zip((a, b), SIDES, measured, strict=False))
    engine, bits = load_engine(spec), norm_bits(spec.k)
    rows = [as_rows(x, side, spec.op(side)) for x, side, _ in sides]
    certain = np.ones(len(a), bool)
    if spec.equilibrate:
        columns = [
            engine.column_exponents(x, known.largest)
            for x, known in zip(rows, measured, strict=True)
        ]
        certain = ~may_gain(*(convert(x[:, 0], "numpy") for x in columns))
    both = rows[0], rows[-1], measured[0], measured[-1]
    found = engine.smallest_cosines(*both, bits)
    cosines = convert(found, "numpy").astype(np.float64)
    least, most = _bracket(cosines, measured, spec)
    certain &= least > 0
    sampled = spec.grade == "native" and max(rows[0].shape[1], rows[-1].shape[1])
    if sampled > SAMPLE:
        # Rows that are not in the sample may be the worst: but 1 bounds all cosines.
        most[...] = 1
    return [
        _find_system(spec, low, high) if known else None
        for known, low, high in zip(certain, least, most, strict=True)
    ]


def _bracket(
    cosines: Array, measured: Sequence[Measured], spec: Spec
) -> tuple[Array, Array]:
    """Bound what `estimate` will find of the smallest cosines; 0 where that is nothing.

    Its magnitudes are cut to 8 bits and then, in units of each row's power of two, to b
    bits: each is off by at most 2^-7 of itself and 2^-b, and they are at most sqrt(2).
    Norms are such units, too.
    """
    rounding = (spec.k + 8) * 2.0**-23
    smallest = 1.0
    for x in (measured[0], measured[-1]):
        sums = convert(x.sums, "numpy").astype(np.float64)
        smallest *= np.sqrt(
            np.where(sums > 0, sums, np.inf).min(axis=-1, initial=np.inf)
        )
    smallest *= 2.0 ** (-2 * norm_bits(spec.k))
    cut = 4 * spec.k * 2.0 ** -magnitude_bits(spec.k) / smallest
    least = cosines * (1 - rounding) * (1 - 2.0**-7) ** 2 - cut
    # Far from where largest terms stand for sums.
    least[least < 8 * cut] = 0
    return least, cosines * (1 + rounding)


def _find_system(spec: Spec, least: float, most: float) -> ResidueSystem | None:
    """Return the system of all cosines between two numbers, if it is one."""
    low, high = (-2 * _STEPS * log2(x) for x in (min(most, 1.0), min(least, 1.0)))
    given: tuple[Any, ...] = spec.method, spec.k, spec.unit_roundoff
    first, last = (_system_at(*given, q) for q in (floor(low), floor(high) + 1))
    return first if first == last else None


@lru_cache(maxsize=1024)
def _system_at(method: str, k: int, u: float, step: int) -> ResidueSystem | None:
    return componentwise_system(method, k, 2.0 ** (step / _STEPS), u)
