"""Roles of named dimensions: contracted, rows, columns, stacks, and parts of entries.

In a product names alone decide, as in `xarray.dot`: A and B share stacks; what only A
has are rows, and what only B has are columns; a vector has none of these. In an update
rows have to be named if more than one dimension is left. Their order is of no matter.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import ArgumentError, PlanError
from ..problem.call import Names
from ..tiles.routine import Routine
from ..typing import Op

Dims = tuple[Hashable, ...]
# For each array the dimensions that make each axis of its matrix.
Axes = dict[str, tuple[Dims, ...]]
Roles = tuple[Dims, tuple[Dims, Dims]]  # stacks; rows and columns


class Arranged(NamedTuple):
    """Dimensions of DataArrays that are the axes of matrices."""

    axes: Axes  # those of pairs have a last axis of parts
    stack: Dims  # dimensions that all arrays share, along which matrices are stacked
    outer: tuple[Dims, Dims]  # rows and columns of the result


def arrange(
    routine: Routine, ops: Sequence[Op], names: Names, given: Mapping[str, Any]
) -> Arranged:
    """Find the role of each dimension, or say why one has none."""
    operands = {name: x for name, x in given.items() if name != "C"}
    dim = _find_dim(names.dim, operands)
    rows = () if names.rows is None else _as_dims(names.rows)
    parts = _find_parts(names.pairs, (*dim, *rows), operands)
    taken = {*dim, *parts}
    kept = {x: tuple(z for z in y.dims if z not in taken) for x, y in operands.items()}
    if routine.triangle:
        stack, outer = _arrange_update(dim, rows, kept)
        axes: Axes = dict.fromkeys(operands, (outer[0], dim))
    else:
        stack, outer = _arrange_product(dim, kept)
        axes = {"A": (outer[0], dim), "B": (dim, outer[1])}
        turned = (name for name, op in zip(axes, ops, strict=False) if op != "N")
        axes |= {name: axes[name][::-1] for name in turned}
    axes = {name: (*x, parts) if parts else x for name, x in axes.items()}
    if "C" in given:
        axes["C"] = outer
        found, result = given["C"].dims, (*stack, *outer[0], *outer[1])
        if {*found} != {*result}:
            text = f"C has the dimensions {show(found)}, but the result {show(result)}"
            raise PlanError(text, "", "dims")
    return Arranged(axes, stack, outer)


def second(name: Hashable) -> str:
    """Name the columns of an update after its rows."""
    return f"{name}_2"


def show(dims: Iterable[Hashable]) -> str:
    """List dimensions in an error."""
    return ", ".join(map(repr, dims)) or "none"


def _offer(option: str, dims: Iterable[Hashable]) -> str:
    return " or ".join(f"{option}={x!r}" for x in dims)


def _as_dims(names: Any) -> Dims:
    """Return one name or several as a tuple; a text is one name."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        return (names,)
    return tuple(names)


def _find_dim(names: Any, operands: Mapping[str, Any]) -> Dims:
    """Return what is contracted, in the order in which it is merged.

    Sums along it are exact, so the order changes no bit. That of A may need no copy;
    but dask merges without other chunks only what stands behind the one that is cut.
    """
    dim = _as_dims(names)
    for name, x in operands.items():
        if not {*dim} <= {*x.dims} or len({*dim}) != len(dim) or not dim:
            problem = f"{name} has the dimensions {show(x.dims)}, but dim is {names!r}"
            remedy = "Name one or several that every matrix has, each once"
            raise PlanError(problem, remedy, "dim")
    # Those of coordinates may differ.
    chunks = [x.variable.chunksizes for x in operands.values()]
    cuts = {y: max(len(x.get(y, ())) for x in chunks) for y in dim}
    dim = tuple(y for y in operands["A"].dims if y in dim)
    return tuple(sorted(dim, key=lambda y: -cuts[y]))


def _find_parts(pairs: Any, named: Dims, operands: Mapping[str, Any]) -> Dims:
    for name, x in operands.items():
        free = [y for y in x.dims if y not in named and x.sizes[y] == 2]
        offer = _offer("pairs", free or ["name"])
        if pairs is None and free and x.dtype.kind in "iu":
            raise ArgumentError(
                f"{name} is {x.dtype} and has length 2 along {show(free)}, and it is "
                "not said whether that holds real and imaginary parts",
                f"Give {offer} if it does, pairs=False if not",
                "pairs",
            )
        if not (pairs is None or pairs is False or pairs in free):
            remedy = "Name one that every matrix has, and leave it out of dim and rows"
            raise PlanError(
                f"{name} has {dict(x.sizes)}, so pairs={pairs!r} is not a dimension of "
                "length 2 beside dim and rows",
                f"{remedy}: {offer}",
                "pairs-shape",
            )
        if pairs in free and x.dtype.kind in "fc":
            raise ArgumentError(
                f"{name} has dtype {x.dtype}, but pairs are of integers",
                f"Convert it with astype; or give {name}.isel({pairs}=0) + 1j * "
                f"{name}.isel({pairs}=1) without pairs",
                "pairs-dtype",
            )
    return () if pairs is None or pairs is False else (pairs,)


def _arrange_product(dim: Dims, kept: Mapping[str, Dims]) -> Roles:
    """Take the dimensions that only A has as rows, and those of B as columns."""
    stack = tuple(x for x in kept["A"] if x in kept["B"])
    rows, columns = (tuple(y for y in kept[x] if y not in stack) for x in "AB")
    if stack and not (rows or columns):
        # Likely more is wanted than a vector of each for each label.
        renamed = " or ".join(f"B.rename({x}={second(x)!r})" for x in stack)
        problem = (
            f"B has no columns: beside dim={show(dim)} it has {show(stack)}, and what "
            "both matrices have are stacks"
        )
        raise PlanError(problem, f"Rename those that are columns: {renamed}", "dims")
    return stack, (rows, columns)


def _arrange_update(dim: Dims, named: Dims, kept: Mapping[str, Dims]) -> Roles:
    """Take the named dimensions as rows, or the only one, and again as columns."""
    first = kept["A"]
    for name, dims in kept.items():
        if {*dims} != {*first}:
            problem = (
                f"beside dim={show(dim)} A has the dimensions {show(first)} and {name} "
                f"{show(dims)}, but they have to agree"
            )
            raise PlanError(problem, "", "dims")
    rows = named or first
    if not first:
        text = f"A has no dimension beside dim={show(dim)}, and no rows"
        raise PlanError(text, "", "dims")
    if not named and len(first) > 1:
        raise PlanError(
            f"A has the dimensions {show(first)} beside dim={show(dim)}, and it is not "
            "said which are rows",
            f"Name the rows: {_offer('rows', first)}; the others are stacks",
            "rows",
        )
    if len({*rows}) < len(rows) or not {*rows} <= {*first}:
        text = f"rows is {show(rows)}, but beside dim={show(dim)} A has {show(first)}"
        raise PlanError(text, "Name one or several of these, each once", "rows")
    columns = tuple(map(second, rows))
    if taken := {*columns} & {*first, *dim}:
        problem = f"columns would be called {show(taken)}, like a dimension of A"
        raise PlanError(problem, "Rename that dimension", "dims")
    return tuple(x for x in first if x not in rows), (rows, columns)
