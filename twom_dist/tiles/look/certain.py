"""Moduli of the matrices of a stack, found for all at once where they are certain.

A matrix of a stack takes the moduli that it takes alone. The angles of its rows settle
most, some with their rounding errors. For the others `every_pair` takes magnitudes,
matrix by matrix, which takes longer than small products. This module brackets what it
would find, in units of the norms, as cosines between rows of |A| and columns of |B|:
one product in float32, of only those rows and columns whose angles are too large. For
most matrices both ends of the bracket give the same moduli; others are computed alone.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...kernels.survey import Surveyed
from ...moduli import ZERO_ROW, ResidueSystem, norm_bits, scaling_rule
from ...moduli.accuracy import componentwise_system, fewest_systems
from ...typing import Array
from ..spec import SIDES, Spec, as_rows, load_engine
from .angles import bound_ratios, find_cosines
from .equilibration import may_gain
from .every_pair import magnitude_bits
from .measured import Measured
from .settle import may_save, suffice

# Steps per power of two to which ratios are rounded: each is 1/16 of a bit of M.
_STEPS = 16


def certain_systems(
    a: Array, b: Array, measured: Sequence[Measured], spec: Spec
) -> list[ResidueSystem | None]:
    """Return the residue system of each matrix, or None where it is uncertain.

    Parameters
    ----------
    a, b : (count, rows, columns)
        Stacks; b is a where the spec says twins.
    measured : sequence of Measured
        Of (count, rows): of op(A), and of op(B)^T unless that is the same; of columns,
        too, if the spec asks for equilibration.
    spec : Spec
        Whose moduli the entries choose.
    """
    rows = [
        as_rows(x, side, spec.op(side))
        for x, side, _ in zip((a, b), SIDES, measured, strict=False)
    ]
    systems = fewest_systems(spec.method, spec.k, spec.unit_roundoff)
    found: list[ResidueSystem | None] = [None] * len(a)
    if not systems:
        return found
    given = [Surveyed(*x) for x in measured]
    cosines, columns = load_engine(spec).summarise(given, spec.k)
    smallest = cosines[0], cosines[-1]
    ratios, fixed = bound_ratios(*smallest), np.ones(len(a), bool)
    if columns is not None:
        fixed = ~may_gain(columns, spec.k)
    for system, most in reversed(systems):
        for place in np.flatnonzero(fixed & (ratios <= most)).tolist():
            found[place] = system
    asked = np.flatnonzero(fixed & may_save(ratios, spec))
    if len(asked):
        errors = _largest_errors(rows, measured, asked, systems[0][0], spec)
        saved = suffice(spec, np.sqrt(ratios[asked]), errors)
        for place in asked[saved].tolist():
            found[place] = systems[0][0]
    left = np.flatnonzero(fixed & (ratios > systems[-1][1]))
    if len(left):
        bracketed = _bracket(rows, measured, left, smallest, systems[-1], spec)
        for place, one in zip(left.tolist(), bracketed, strict=True):
            found[place] = one
    return found


def _largest_errors(
    rows: Sequence[Array],
    measured: Sequence[Measured],
    places: Array,
    system: ResidueSystem,
    spec: Spec,
) -> Array:
    """Return the largest sum of squared rounding errors of a row of some matrices."""
    engine, rule = load_engine(spec), scaling_rule(system, spec.k)
    assert rule is not None
    exponents = [engine.choose_exponents(x.largest, x.squares, rule) for x in measured]
    largest = engine.largest_errors(rows, exponents, norm_bits(spec.k), places)
    return largest.astype(np.float64)


def _bracket(
    rows: Sequence[Array],
    measured: Sequence[Measured],
    places: Array,
    smallest: Sequence[Array],
    second: tuple[ResidueSystem, float],
    spec: Spec,
) -> list[ResidueSystem | None]:
    """Return the systems on which both bounds of the smallest cosines agree.

    `smallest`: those of angles, of both sides. Only rows and columns count that have
    an open pair; no matrix takes fewer moduli than the second system, which suffices
    for the others.
    """
    system, limit = second
    given = rows, measured, places, smallest, limit, spec
    least, most, known = _bound_cosines(*given)
    # Ratios are 1 over squared cosines; their steps are rounded outwards.
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (-2 * _STEPS * np.log2(x) for x in (most, least))
    found: list[ResidueSystem | None] = []
    for i, some in enumerate(known.tolist()):
        ends = set()
        if some:
            steps = int(np.floor(low[i])), int(np.floor(high[i])) + 1
            asked = spec.method, spec.k, spec.unit_roundoff
            ends = {_system_at(*asked, step) for step in steps}
            ends = {_longer(x, system) for x in ends}
        found.append(ends.pop() if len(ends) == 1 else None)
    return found


def _bound_cosines(
    rows: Sequence[Array],
    measured: Sequence[Measured],
    places: Array,
    smallest: Sequence[Array],
    limit: float,
    spec: Spec,
) -> tuple[Array, Array, Array]:
    """Bound the smallest cosines that `every_pair` finds, and tell which are known."""
    engine, operands, chosen = load_engine(spec), [], []
    # By one wait for both sides.
    numbers = iter(engine.fetch([y for x in measured for y in x[:3] if y is not None]))
    for x, all_rows, other in zip(rows, measured, smallest[::-1], strict=False):
        own = Measured(next(numbers), next(numbers), next(numbers))
        largest, own = np.full_like(own.largest, ZERO_ROW), own.take(places)
        bounds = bound_ratios(find_cosines(own, spec.k), other[places, np.newaxis])
        largest[places] = np.where(bounds > limit, own.largest, ZERO_ROW)
        operands.append((x, (largest, all_rows.squares)))
        chosen.append(own)
    (x, of_x), (y, of_y) = operands[0], operands[-1]
    given = x, y, of_x, of_y, norm_bits(spec.k), places
    cosines = engine.smallest_cosines(*given).astype(np.float64)
    factor, cut = _losses(chosen, spec)
    least = cosines * factor - cut
    most = np.minimum(cosines * (1 + _rounding(spec.k)), 1)
    # Far above the cosines for which `every_pair` takes largest terms instead of sums.
    known = least >= np.maximum(8 * cut, 2.0**-60)
    return least, most, known


def _longer(found: ResidueSystem | None, least: ResidueSystem) -> ResidueSystem | None:
    if found is None or found.modulus_bits > least.modulus_bits:
        return found
    return least


def _losses(measured: Sequence[Measured], spec: Spec) -> tuple[float, Array]:
    """Return f and c: `every_pair` finds at least f times a cosine minus c.

    Its magnitudes are cut to 8 bits and then, in units of each row's power of two, to b
    bits: each is off by at most 2^-7 of itself and 2^-b, and they are at most sqrt(2).
    Norms are in these units, too.
    """
    smallest: Any = 1.0  # of each matrix of a stack
    for x in (measured[0], measured[-1]):
        squares = x.squares.astype(np.float64)
        smallest *= np.sqrt(
            np.where(squares > 0, squares, np.inf).min(axis=-1, initial=np.inf)
        )
    smallest *= 2.0 ** (-2 * norm_bits(spec.k))
    cut = 4 * spec.k * 2.0 ** -magnitude_bits(spec.k) / smallest
    return (1 - _rounding(spec.k)) * (1 - 2.0**-7) ** 2, cut


def _rounding(k: int) -> float:
    """Bound the relative error of a cosine in float32."""
    return (k + 8) * 2.0**-23


@lru_cache(maxsize=1024)
def _system_at(method: str, k: int, u: float, step: int) -> ResidueSystem | None:
    return componentwise_system(method, k, 2.0 ** (step / _STEPS), u)
