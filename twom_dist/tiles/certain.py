"""Moduli of the matrices of a stack, where a look at all of them at once settles them.

A matrix of a stack takes the moduli that it takes alone: `estimate` finds them from
exact bounds of ``|A| |B|``, matrix by matrix, which takes longer than small products.
Here those bounds are bracketed, in units of the norms, as cosines between rows of |A|
and columns of |B|; first by their sums alone: with ``u = s/k + d``, where d sums to 0,

    u v = s_u s_v / k + d_u d_v >= s_u s_v / k - sqrt((1 - s_u^2/k) (1 - s_v^2/k))

by Cauchy-Schwarz; then, where that does not tell, by one product in float32. Most
matrices lie within one number of moduli, and `estimate` is asked about the others.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from ..accuracy import componentwise_system
from ..kernels.family import convert, family_of
from ..moduli import ResidueSystem, norm_bits
from ..typing import Array
from .equilibration import may_gain
from .estimate import SAMPLE, Measured, choose_rows, magnitude_bits
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
    engine, bits = load_engine(spec), norm_bits(spec.k)
    sides = [
        (as_rows(x, side, spec.op(side)), known)
        for x, side, known in zip((a, b), SIDES, measured, strict=False)
    ]
    open_ = np.ones(len(a), bool)
    if spec.equilibrate:
        columns = [engine.column_exponents(x, known.largest) for x, known in sides]
        open_ = ~may_gain(*(convert(x[:, 0], "numpy") for x in columns))
    sums = [_fetch(engine.smallest_sums(x, *known, bits)) for x, known in sides]
    found: list[ResidueSystem | None] = [None] * len(a)
    by_sums = _bound_by_sums(sums[0], sums[-1], spec.k), np.ones(len(a))
    _settle(found, np.flatnonzero(open_), by_sums, sides, spec)
    left = np.array([i for i in np.flatnonzero(open_) if found[i] is None], int)
    if len(left):
        if len(left) < len(a):
            sides = [(x[left], _choose(known, left)) for x, known in sides]
        sides = [_sample(x, known, spec) for x, known in sides]
        (x, of_x), (y, of_y) = sides[0], sides[-1]
        cosines = _fetch(engine.smallest_cosines(x, y, of_x, of_y, bits))
        _settle(found, left, (cosines, cosines), sides, spec)
    return found


def _fetch(x: Array) -> Array:
    return convert(x, "numpy").astype(np.float64)


def _choose(measured: Measured, places: Array) -> Measured:
    return Measured(measured.largest[places], measured.sums[places])


def _bound_by_sums(left: Array, right: Array, k: int) -> Array:
    """Bound cosines from below by the smallest sums of rows: it grows with both."""
    rest = (np.maximum(0, 1 - x * x / k) for x in (left, right))
    bound: Array = left * right / k - np.sqrt(prod(rest))
    return bound


def _sample(x: Array, measured: Measured, spec: Spec) -> tuple[Array, Measured]:
    """Take the rows of each matrix that `estimate` looks at, some perhaps twice."""
    if spec.grade != "native" or x.shape[1] <= SAMPLE:
        return x, measured
    on_host = [convert(t, "numpy") for t in measured]
    rows = [
        choose_rows([Measured(*known)], spec)[0] for known in zip(*on_host, strict=True)
    ]
    # Of none any will do: they are left out.
    chosen = np.array([np.resize(t if len(t) else [0], SAMPLE) for t in rows])
    which = np.arange(len(x))[:, np.newaxis], convert(chosen, family_of(x))
    return x[which], Measured(*(t[which] for t in measured))


def _settle(
    found: list[ResidueSystem | None],
    places: Array,
    cosines: tuple[Array, Array],
    sides: Sequence[tuple[Array, Measured]],
    spec: Spec,
) -> None:
    """Note the systems of matrices whose smallest cosines lie between two numbers."""
    least, most = _bracket(*cosines, [known for _, known in sides], spec)
    if len(least) != len(places):
        least, most = least[places], most[places]
    known = least > 0
    given = spec.method, spec.k, spec.unit_roundoff
    # Steps of ratios, which are squares of 1 over a cosine, rounded apart.
    low, high = (-2 * _STEPS * np.log2(np.minimum(x[known], 1)) for x in (most, least))
    steps = (
        np.floor(low).astype(int).tolist(),
        (np.floor(high) + 1).astype(int).tolist(),
    )
    for place, first, last in zip(places[known].tolist(), *steps, strict=True):
        system = _system_at(*given, first)
        if system == _system_at(*given, last):
            found[place] = system


def _bracket(
    least: Array, most: Array, measured: Sequence[Measured], spec: Spec
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
    least = least * (1 - rounding) * (1 - 2.0**-7) ** 2 - cut
    # Far from where largest terms stand for sums.
    least[least < 8 * cut] = 0
    return least, most * (1 + rounding)


@lru_cache(maxsize=1024)
def _system_at(method: str, k: int, u: float, step: int) -> ResidueSystem | None:
    return componentwise_system(method, k, 2.0 ** (step / _STEPS), u)
