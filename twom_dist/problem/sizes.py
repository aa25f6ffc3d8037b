"""Sizes of matrices: which fit together, and which are unknown."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import PlanError
from ..tiles.routine import Routine
from ..typing import Op


def op_shape(x: Any, op: Op) -> tuple[int, int]:
    """Return the shape of op(x), or of the matrices of a stack."""
    rows, columns = x.shape[-2:]
    return (rows, columns) if op == "N" else (columns, rows)


def check_sizes(
    routine: Routine, a: Any, b: Any, c: Any, op_a: Op, op_b: Op
) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """Return (m, n, k) of ``op(A) op(B)``, and the axes in front of stacks.

    Raises an error that says which dimensions disagree.
    """
    named = [(x, name) for x, name in ((a, "A"), (b, "B"), (c, "C")) if x is not None]
    if routine.triangle and not same_sizes(b.shape[-2:], a.shape[-2:]):
        problem = (
            f"A has shape {tuple(a.shape)} and B {tuple(b.shape)}, but "
            f"{routine.name} takes matrices of one shape"
        )
        raise PlanError(problem, "", "shapes")
    (m, k), (k_b, n) = op_shape(a, op_a), op_shape(b, op_b)
    check_known([k], "A", " along k")
    check_known([k_b], "B", " along k")
    stacked = any(len(x.shape) > 2 for x, _ in named)
    for x, name in named if stacked else ():
        check_known(x.shape, name)
    if k != k_b:
        problem = (
            f"op(A) is {m} x {k} and op(B) is {k_b} x {n} (op_a={op_a!r}, "
            f"op_b={op_b!r}), but their inner dimensions must agree"
        )
        remedy = ""
        if n == k:
            remedy = f"Give {_turned('op_b', op_b)}, which fits"
        elif m == k_b:
            remedy = f"Give {_turned('op_a', op_a)}, which fits"
        raise PlanError(problem, remedy, "shapes")
    if c is not None and not same_sizes(c.shape[-2:], (m, n)):
        problem = f"C has shape {tuple(c.shape)}, but the result is {m} x {n}"
        raise PlanError(problem, "", "shapes")
    rows, columns = (x if is_unknown(x) else int(x) for x in (m, n))
    stack = _broadcast_stacks(named) if stacked else ()
    return (rows, columns, int(k)), stack


def _turned(option: str, op: Op) -> str:
    return f"{option}='C' or {option}='T'" if op == "N" else f"{option}='N'"


def is_unknown(size: Any) -> bool:
    """Tell a size that is known once its chunk is computed; dask says NaN."""
    return bool(size != size)


def same_sizes(x: Iterable[Any], y: Iterable[Any]) -> bool:
    """Tell whether sizes agree as far as they are known."""
    both = zip(x, y, strict=True)
    return all(p == q or is_unknown(p) or is_unknown(q) for p, q in both)


def check_known(shape: Iterable[Any], name: str, where: str = "") -> None:
    """Refuse unknown sizes where every one of them counts."""
    if any(map(is_unknown, shape)):
        problem = f"{name} has chunks of unknown size{where}"
        remedy = "Call its method compute_chunk_sizes() first"
        raise PlanError(problem, remedy, "unknown-chunks")


def _broadcast_stacks(named: Iterable[tuple[Any, str]]) -> tuple[int, ...]:
    stacks = [(x.shape[:-2], name) for x, name in named]
    try:
        return tuple(map(int, np.broadcast_shapes(*(stack for stack, _ in stacks))))
    except ValueError:
        given = ", ".join(f"{stack} of {name}" for stack, name in stacks)
        problem = f"the axes in front of the matrices ({given}) do not broadcast"
        raise PlanError(problem, "", "stack-shapes") from None
