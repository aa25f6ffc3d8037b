"""DataArrays of xarray: roles of their dimensions, matrices, labels of the result.

In a product of two matrices only names of dimensions decide, as in `xarray.dot`:
dimensions of A and B are stacks, those of A alone rows, and those of B alone columns; a
vector has neither. In a rank-k update, rows must be named if more than one dimension is
left. The order of dimensions does not matter.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from ..errors import ArgumentError, PlanError
from ..problem.call import Call, Names
from ..problem.dtypes import INTEGERS
from ..problem.matrices import dask_array, is_dask
from ..problem.problem import check_matrices
from ..problem.sizes import check_known
from ..tiles.integers import working_dtype
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


def apply(function: Callable[[Call], Any], call: Call) -> Any:
    """Apply a function that computes calls of plain arrays to a call of DataArrays."""
    given, arranged = _read(call)
    rows, columns = arranged.outer
    labels = None
    if call.terms.routine.triangle:
        labels = _label_columns(call.A, rows)
    _check_aligned(*given.values(), *([] if labels is None else [labels]))
    right = given.get("B", call.A).sizes
    sizes = [*map(call.A.sizes.get, rows)]
    sizes += sizes if labels is not None else map(right.get, columns)
    # Integers of a complex product have a last axis of parts.
    names, parts = call.names, tuple[Hashable, ...]()
    if names is not None and call.terms.letter in INTEGERS:
        parts = (names.pairs,)

    def compute(*arrays: Any) -> Any:
        axes = arranged.axes
        plain = {x: _merge(y, axes[x]) for x, y in zip(given, arrays, strict=True)}
        found = function(call._replace(names=None, **plain))
        whole = len(rows) == len(columns) == 1
        if whole:
            return found
        stack, tail = len(arranged.stack), (2,) * len(parts)
        return found.reshape((*found.shape[:stack], *sizes, *tail))

    result = sys.modules["xarray"].apply_ufunc(
        compute,
        *given.values(),
        input_core_dims=[sum(x, ()) for x in arranged.axes.values()],
        output_core_dims=[(*rows, *columns, *parts)],
        join="exact",
        dask="allowed",
    )
    result.name = None
    return result if labels is None else result.assign_coords(labels.coords)


def is_labelled(x: Any) -> bool:
    """Tell a DataArray without importing xarray."""
    data_array = getattr(sys.modules.get("xarray"), "DataArray", None)
    return data_array is not None and isinstance(x, data_array)


def join_parts(A: Any, B: Any, pairs: Any) -> tuple[Any, Any, Any]:
    """Make complex numbers of the pairs of a matrix, if the other one has no integers.

    Returns both matrices, and the dimension of pairs if there still is one. Everything
    else is returned as it is, to be refused where it does not fit.
    """
    given = [A, B]
    for i, (x, y) in enumerate(((A, B), (B, A))):
        if not (is_labelled(x) and is_labelled(y)) or pairs in y.dims:
            continue
        # Some of more bits are no doubles.
        exact = x.dtype.kind in "iu" and x.dtype.itemsize <= 4
        if exact and x.sizes.get(pairs) == 2 and y.dtype.kind in "fc":
            parts = x.astype(working_dtype(x.dtype))
            real, imaginary = (parts.isel({pairs: j}, drop=True) for j in (0, 1))
            given[i] = real + 1j * imaginary
            return given[0], given[1], False
    return A, B, pairs


def as_plain(call: Call, *, single: bool) -> Call:
    """Return the same call of the plain arrays in DataArrays.

    `single`: refuse stacks.
    """
    given, arranged = _read(call)
    _check_aligned(*given.values())
    if single and arranged.stack:
        one = ", ".join(f"{x}=0" for x in arranged.stack)
        problem = f"no batch along {show(arranged.stack)} is possible here"
        raise PlanError(problem, f"Give one of each, as by A.isel({one})", "stack")
    plain = {
        name: _merge(given[name].transpose(*arranged.stack, *sum(x, ())).data, x)
        for name, x in arranged.axes.items()
    }
    return call._replace(names=None, **plain)


def _read(call: Call) -> tuple[dict[str, Any], Arranged]:
    """Return the DataArrays of a call by its letters, and the roles of dimensions."""
    assert call.names is not None
    routine = call.terms.routine
    check_matrices(routine, call.A, call.B)
    letters = {"A": call.A, "B": call.B, "C": call.C}
    given = {name: x for name, x in letters.items() if x is not None}
    for name, x in given.items():
        _check_kind(name, x, routine.name)
    return given, arrange(routine, call.terms.ops, call.names, given)


def _merge(x: Any, axes: tuple[Dims, ...]) -> Any:
    """Make one axis of each group of the last dimensions: a view where that can be."""
    if all(len(group) == 1 for group in axes):
        return x
    place = stack = x.ndim - sum(map(len, axes))
    shape = list(x.shape[:stack])
    for group in axes:
        shape.append(prod(x.shape[place : place + len(group)]))
        place += len(group)
    if is_dask(x) and 0 in shape:
        chunks = (*x.chunks[:stack], *shape[stack:])  # dask cannot merge empty axes
        return dask_array().zeros_like(x, shape=tuple(shape), chunks=chunks)
    return x.reshape(tuple(shape))


def _check_kind(name: str, x: Any, routine: str) -> None:
    kind = type(x)
    if is_labelled(x):
        # xarray compares sizes, and NaN is like none.
        check_known(x.shape, f"{name}.data")
        return
    found = f"{kind.__module__.split('.')[0]}.{kind.__name__}"
    remedy = f"Make DataArrays of all matrices, or call td.{routine}"
    if found == "xarray.Dataset":
        remedy = f"Choose one of its variables, as {name}['variable']"
    problem = f"dim names a dimension of DataArrays, but {name} is a {found}"
    raise ArgumentError(problem, remedy, "not-labelled")


def _label_columns(x: Any, rows: Dims) -> Any:
    """Copy the coordinates of the rows, renamed, as those of the columns."""
    labels = x.coords.to_dataset()
    others = [y for y, z in labels.coords.items() if not set() < {*z.dims} <= {*rows}]
    labels = labels.drop_vars(others)
    # An index may consist of several coordinates.
    names = {y: second(y) for y in {**labels.coords, **labels.sizes}}
    taken = {*names.values(), *map(second, rows)} & {*x.coords}
    if taken:
        problem = (
            f"coordinates of the columns would be called {show(sorted(taken))}, like "
            "some of A"
        )
        raise PlanError(problem, "Rename those, or drop them", "dims")
    return labels.rename(names)


def _check_aligned(*arrays: Any) -> None:
    try:
        sys.modules["xarray"].align(*arrays, join="exact", copy=False)
    except ValueError as error:
        problem = f"labels or sizes of a dimension that matrices share differ ({error})"
        remedy = "Select what they have in common with xarray.align"
        raise PlanError(problem, remedy, "labels") from None


# --- roles of dimensions ------------------------------------------------------------


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
                f"{name} is {x.dtype} with length 2 along {show(free)}: does that hold "
                "real and imaginary parts?",
                f"Give {offer} if it does, pairs=False if not",
                "pairs",
            )
        if not (pairs is None or pairs is False or pairs in free):
            remedy = "Name one that every matrix has, and leave it out of dim and rows"
            raise PlanError(
                f"{name} has {dict(x.sizes)}, so pairs={pairs!r} is not a dimension of "
                "length 2 besides dim and rows",
                f"{remedy}: {offer}",
                "pairs-shape",
            )
        if pairs in free and not _may_be_parts(x.coords.get(pairs)):
            labels = show(x.coords[pairs].values.tolist())
            problem = f"{name} has the labels {labels} along {pairs!r}, not re and im"
            raise PlanError(
                problem, "Name another dimension, or drop these", "pairs-shape"
            )
        if pairs in free and x.dtype.kind in "fc":
            raise ArgumentError(
                f"{name} has dtype {x.dtype}, but pairs are of integers",
                f"Convert it with astype; or give {name}.isel({pairs}=0) + 1j * "
                f"{name}.isel({pairs}=1) without pairs",
                "pairs-dtype",
            )
    return () if pairs is None or pairs is False else (pairs,)


def _may_be_parts(labels: Any) -> bool:
    """Tell whether labels are those of parts, such as re and im, or no texts."""
    values = [] if labels is None else labels.values.tolist()
    firsts = [x[:1].lower() for x in values if isinstance(x, str)]
    return "".join(firsts) in ("", "ri", "iq")


def _arrange_product(dim: Dims, kept: Mapping[str, Dims]) -> Roles:
    """Take the dimensions that only A has as rows, and those of B as columns."""
    stack = tuple(x for x in kept["A"] if x in kept["B"])
    rows, columns = (tuple(y for y in kept[x] if y not in stack) for x in "AB")
    if stack and not (rows or columns):
        # Likely more is wanted than a vector of each for each label.
        renamed = " or ".join(f"B.rename({x}={second(x)!r})" for x in stack)
        problem = (
            f"B has no columns: besides dim={show(dim)} it has {show(stack)}, which A "
            "has, too, and which are batches therefore"
        )
        raise PlanError(problem, f"Rename those that are columns: {renamed}", "dims")
    return stack, (rows, columns)


def _arrange_update(dim: Dims, named: Dims, kept: Mapping[str, Dims]) -> Roles:
    """Take the named dimensions as rows, or the only one, and again as columns."""
    first = kept["A"]
    for name, dims in kept.items():
        if {*dims} != {*first}:
            problem = (
                f"A has the dimensions {show(first)} and {name} {show(dims)} besides "
                f"dim={show(dim)}, but they have to agree"
            )
            raise PlanError(problem, "", "dims")
    rows = named or first
    if not first:
        text = f"A has no dimension besides dim={show(dim)}, and so no rows"
        raise PlanError(text, "", "dims")
    if not named and len(first) > 1:
        raise PlanError(
            f"besides dim={show(dim)} A has {show(first)}: which are rows?",
            f"Name them: {_offer('rows', first)}; the others are batches",
            "rows",
        )
    if len({*rows}) < len(rows) or not {*rows} <= {*first}:
        text = f"rows is {show(rows)}, but besides dim={show(dim)} A has {show(first)}"
        raise PlanError(text, "Name one or several of these, each once", "rows")
    columns = tuple(map(second, rows))
    if taken := {*columns} & {*first, *dim}:
        problem = f"columns would be called {show(taken)}, like a dimension of A"
        raise PlanError(problem, "Rename that dimension", "dims")
    return tuple(x for x in first if x not in rows), (rows, columns)
