"""DataArrays of xarray: their matrices, and the labels of the result."""

import sys
from collections.abc import Callable
from math import prod
from typing import Any

from ..errors import ArgumentError, PlanError
from ..problem.call import Call
from ..problem.matrices import is_dask
from ..problem.problem import check_matrices
from ..problem.sizes import check_known
from ..tiles.integers import working_dtype
from .dimensions import Arranged, Dims, arrange, second, show


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

    def compute(*arrays: Any) -> Any:
        axes = arranged.axes
        plain = {x: _merge(y, axes[x]) for x, y in zip(given, arrays, strict=True)}
        found = function(call._replace(names=None, **plain))
        whole = len(rows) == len(columns) == 1
        return found if whole else found.reshape((*found.shape[:-2], *sizes))

    result = sys.modules["xarray"].apply_ufunc(
        compute,
        *given.values(),
        input_core_dims=[sum(x, ()) for x in arranged.axes.values()],
        output_core_dims=[(*rows, *columns)],
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
    """Make complex numbers of pairs that one matrix has beside a floating-point one.

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


def map_values(function: Callable[[Any], Any], x: Any, last: Dims) -> Any:
    """Apply a function to the values of a DataArray; `last`: axes that it adds."""
    return sys.modules["xarray"].apply_ufunc(
        function, x, output_core_dims=[last], dask="allowed", keep_attrs=True
    )


def as_plain(call: Call, *, single: bool) -> Call:
    """Return the same call of the plain arrays in DataArrays.

    `single`: refuse stacks.
    """
    given, arranged = _read(call)
    _check_aligned(*given.values())
    if single and arranged.stack:
        one = ", ".join(f"{x}=0" for x in arranged.stack)
        problem = f"one matrix is taken here, no stack along {show(arranged.stack)}"
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
        import dask.array as da

        chunks = (*x.chunks[:stack], *shape[stack:])  # dask cannot merge empty axes
        return da.zeros_like(x, shape=tuple(shape), chunks=chunks)
    return x.reshape(tuple(shape))


def _check_kind(name: str, x: Any, routine: str) -> None:
    kind = type(x)
    if is_labelled(x):
        check_known(
            x.shape, f"{name}.data"
        )  # xarray compares sizes, and NaN is like none
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
