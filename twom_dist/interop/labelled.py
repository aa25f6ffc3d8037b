"""DataArrays of xarray: names of dimensions say what is contracted and what is kept."""

import sys
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from ..errors import ArgumentError, PlanError
from ..problem.call import Call
from ..problem.problem import check_matrices
from ..problem.sizes import is_unknown
from ..tiles.routine import Routine

Dims = tuple[Hashable, ...]


class Arranged(NamedTuple):
    """Dimensions of DataArrays that are the rows and columns of matrices.

    `inner`: of each array, in the order of its matrix; `stack`: those that all share,
    along which matrices are stacked; `outer`: rows and columns of the result.
    """

    inner: dict[str, Dims]
    stack: Dims
    outer: Dims


def apply(function: Callable[[Call], Any], call: Call) -> Any:
    """Apply a function that computes calls of plain arrays to a call of DataArrays."""
    routine = call.terms.routine
    check_matrices(routine, call.A, call.B)
    given = _list_given(A=call.A, B=call.B, C=call.C)
    arranged = arrange(routine, call.dim, given)
    labels = None
    if routine.triangle:
        labels = _label_columns(call.A, *arranged.outer)
    _check_aligned(*given.values(), *([] if labels is None else [labels]))

    def compute(*arrays: Any) -> Any:
        plain = dict(zip(given, arrays, strict=True))
        return function(call._replace(dim=None, **plain))

    result = sys.modules["xarray"].apply_ufunc(
        compute,
        *given.values(),
        input_core_dims=[*arranged.inner.values()],
        output_core_dims=[arranged.outer],
        join="exact",
        dask="allowed",
    )
    result.name = None
    return result if labels is None else result.assign_coords(labels.coords)


def as_plain(call: Call) -> Call:
    """Return the same call of the plain arrays in DataArrays; refuse stacks."""
    check_matrices(call.terms.routine, call.A, call.B)
    given = _list_given(A=call.A, B=call.B, C=call.C)
    arranged = arrange(call.terms.routine, call.dim, given)
    _check_aligned(*given.values())
    if arranged.stack:
        one = ", ".join(f"{x}=0" for x in arranged.stack)
        raise PlanError(
            f"these are stacks along {_list(arranged.stack)}, but only one matrix is "
            "taken here",
            "Give one of the stack, such as "
            + " and ".join(f"{x}.isel({one})" for x in given),
            "stack",
        )
    plain = {name: given[name].transpose(*x).data for name, x in arranged.inner.items()}
    return call._replace(dim=None, **plain)


def _list_given(**arrays: Any) -> dict[str, Any]:
    return {name: x for name, x in arrays.items() if x is not None}


def arrange(routine: Routine, dim: Hashable, given: dict[str, Any]) -> Arranged:
    """Find the rows and columns of DataArrays, or say why there are none."""
    for name, x in given.items():
        _check_kind(name, x)
    kept = {name: _kept(name, x, dim) for name, x in given.items() if name != "C"}
    if routine.triangle:
        arranged = _arrange_update(dim, kept)
    else:
        arranged = _arrange_product(dim, kept)
    if "C" in given:
        arranged.inner["C"] = arranged.outer
        result = (*arranged.stack, *arranged.outer)
        if {*given["C"].dims} != {*result}:
            raise PlanError(
                f"C has the dimensions {_list(given['C'].dims)}, but the result "
                f"{_list(result)}",
                "",
                "dims",
            )
    return arranged


def _check_kind(name: str, x: Any) -> None:
    kind = type(x)
    data_array = getattr(sys.modules.get("xarray"), "DataArray", None)
    if data_array is not None and isinstance(x, data_array):
        if any(map(is_unknown, x.shape)):
            # xarray compares sizes, and NaN is like none.
            raise PlanError(
                f"{name} has chunks of unknown size",
                f"Call {name}.data.compute_chunk_sizes() first",
                "unknown-chunks",
            )
        return
    found = f"{kind.__module__.split('.')[0]}.{kind.__name__}"
    remedy = "Make DataArrays of all matrices, or call td.gemm or td.herk"
    if found == "xarray.Dataset":
        remedy = f"Choose one of its variables, as {name}['variable']"
    raise ArgumentError(
        f"dim names a dimension of DataArrays, but {name} is a {found}",
        remedy,
        "not-labelled",
    )


def _kept(name: str, x: Any, dim: Hashable) -> Dims:
    """Return the dimensions that are not contracted."""
    if dim not in x.dims:
        problem = f"{name} has the dimensions {_list(x.dims)}, but dim is {dim!r}"
        raise PlanError(problem, "Name a dimension that every matrix has", "dim")
    return tuple(other for other in x.dims if other != dim)


def _arrange_product(dim: Hashable, kept: Mapping[str, Dims]) -> Arranged:
    """Take the dimensions that only A has as rows, and those of B as columns."""
    stack = tuple(x for x in kept["A"] if x in kept["B"])
    own = {name: [x for x in dims if x not in stack] for name, dims in kept.items()}
    if stack and not any(own.values()):
        last = stack[-1]
        raise PlanError(
            f"besides dim={dim!r}, A and B share all dimensions ({_list(stack)}), "
            "which are stacks, so that none is left for rows and columns",
            f"Rename the columns, as B.rename({last}='{_second(last)}')",
            "dims",
        )
    for name, dims in own.items():
        if len(dims) != 1:
            raise PlanError(
                f"besides dim={dim!r} and what A and B share ({_list(stack)}), {name} "
                f"has {_list(dims)}, but a matrix has one such dimension",
                f"Rename what is not to be shared with {name}.rename, or make one "
                f"dimension of several with {name}.stack",
                "dims",
            )
    rows, columns = *own["A"], *own["B"]
    return Arranged({"A": (rows, dim), "B": (dim, columns)}, stack, (rows, columns))


def _arrange_update(dim: Hashable, kept: Mapping[str, Dims]) -> Arranged:
    """Take the last dimension of an update as its rows, and again as its columns."""
    first = kept["A"]
    for name, dims in kept.items():
        if not dims:
            problem = f"{name} has no dimension besides dim={dim!r}, and no rows"
            raise PlanError(problem, "", "dims")
        if {*dims} != {*first}:
            raise PlanError(
                f"besides dim={dim!r}, A has the dimensions {_list(first)} and {name} "
                f"{_list(dims)}, but they have to agree",
                "",
                "dims",
            )
    *stack, rows = first
    columns = _second(rows)
    if columns in stack or columns == dim:
        problem = f"the columns would be called {columns!r}, like a dimension of A"
        raise PlanError(problem, "Rename that dimension", "dims")
    inner: dict[str, Dims] = dict.fromkeys(kept, (rows, dim))
    return Arranged(inner, tuple(stack), (rows, columns))


def _second(name: Hashable) -> str:
    return f"{name}_2"


def _list(dims: Any) -> str:
    return ", ".join(map(repr, dims)) or "none"


def _label_columns(x: Any, rows: Hashable, columns: Hashable) -> Any:
    """Copy the coordinates of the rows, renamed, as those of the columns."""
    labels = x.coords.to_dataset()
    labels = labels.drop_vars([y for y in labels.coords if labels[y].dims != (rows,)])
    # An index may consist of several coordinates.
    names = {y: _second(y) for y in labels.coords if y != rows}
    taken = {*names.values(), columns} & {*x.coords}
    if taken:
        raise PlanError(
            f"coordinates of the columns would be called {_list(sorted(taken))}, like "
            "some of A",
            "Rename those, or drop them",
            "dims",
        )
    return labels.rename({**names, rows: columns} if rows in labels.dims else names)


def _check_aligned(*given: Any) -> None:
    """Refuse labels of a dimension that differ, in what they are or in their order."""
    try:
        sys.modules["xarray"].align(*given, join="exact", copy=False)
    except ValueError as error:
        raise PlanError(
            f"labels or sizes of a dimension that matrices share differ ({error})",
            "Select what they have in common with xarray.align",
            "labels",
        ) from None
