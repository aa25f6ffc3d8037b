"""Matrices and their stand-ins: arrays of one family, stacks, headers."""

import os
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, PlanError, shown
from ..kernels.family import Family, address_of, family_of, namespace
from ..tiles.integers import part_dtype
from ..typing import as_integer

# Steps in search of a common byte, of which blocks of one matrix take one. NumPy takes
# any number, but says otherwise to type checkers.
_MOST_WORK: Any = 1000


def is_dask(x: Any) -> bool:
    """Tell a dask array without importing dask."""
    kind: Any = type(x)
    return _is_kind_of_dask(kind)


@lru_cache(maxsize=256)
def _is_kind_of_dask(kind: Any) -> bool:
    # A Delayed has every attribute, its class has not.
    ours = kind.__module__.split(".")[0] == "dask"
    return ours and hasattr(kind, "chunks")


def dask_array() -> Any:
    """Import dask.array where it is needed, which takes as long as all else."""
    return import_module("dask.array")


def common_family(**arrays: Any) -> Family:
    """Return the family of all blocks: NumPy or CuPy, inside dask arrays or not."""
    given = {name: x for name, x in arrays.items() if x is not None}
    families = {name: family_of(getattr(x, "_meta", x)) for name, x in given.items()}
    if len(set(families.values())) > 1:
        parts = ", ".join(f"{name} is {family}" for name, family in families.items())
        raise ArgumentError(
            f"NumPy and CuPy are mixed ({parts}; for dask arrays, blocks count)",
            "Move some of them with cupy.asarray or cupy.asnumpy, blocks with "
            "map_blocks",
            "families",
        )
    family: Family = next(iter(families.values()), "numpy")
    if family == "cupy":
        _check_device({name: x for name, x in given.items() if not is_dask(x)})
    return family


def _check_device(arrays: dict[str, Any]) -> None:
    devices = {name: x.device.id for name, x in arrays.items()}
    if len(set(devices.values())) > 1:
        where = ", ".join(f"{name} lies on device {i}" for name, i in devices.items())
        remedy = (
            "Copy all of them to one device, with cupy.asarray in a `with "
            "cupy.cuda.Device(i):` block"
        )
        raise PlanError(where, remedy, "devices")
    for name, i in devices.items():
        current = namespace(arrays[name]).cuda.Device().id
        if i != current:
            problem = f"{name} lies on device {i}, but the current device is {current}"
            remedy = f"Multiply inside `with cupy.cuda.Device({i}):`"
            raise PlanError(problem, remedy, "device")


def as_matrix(x: Any, name: str) -> Any:
    """Return x as a NumPy, CuPy or dask array of (..., rows, columns)."""
    x = as_array(x, name)
    if x.ndim == 0:
        problem = f"{name} is a number, {shown(x[()])}, and not a matrix"
        remedy = "Give the matrices first, and a factor as alpha"
        raise PlanError(problem, remedy, "not-two-dimensional")
    if x.ndim < 2:
        problem = f"{name} has shape {tuple(x.shape)}, but a matrix has two dimensions"
        remedy = f"Use {name}[:, None] for one column, or {name}[None, :] for one row"
        raise PlanError(problem, remedy, "not-two-dimensional")
    return x


def check_single(x: Any, name: str) -> Any:
    """Return a matrix; refuse a stack of them."""
    if len(x.shape) > 2:
        stack = f"{name} has shape {tuple(x.shape)}, but only one matrix fits here"
        raise PlanError(stack, f"Give one of the batch, such as {name}[0]", "stack")
    return x


def as_array(x: Any, name: str) -> Any:
    """Return x as a NumPy, CuPy or dask array."""
    if type(x) is not np.ndarray:
        _refuse_other_kinds(x, name)
        if not is_dask(x) and family_of(x) == "numpy":
            x = _as_numpy(x, name)
    if x.dtype.names is not None:
        raise ArgumentError(
            f"{name} has the fields {', '.join(map(repr, x.dtype.names))}",
            "Give integers as numpy.stack(parts, axis=-1) with pairs=True, other "
            "numbers as a complex array",
            "dtype",
        )
    return x


def _refuse_other_kinds(x: Any, name: str) -> None:
    """Refuse kinds of arrays that NumPy would convert with a loss."""
    meta = getattr(x, "_meta", x)
    if _is_masked(meta):
        problem = f"{name} is a masked array, and masks have no product"
        remedy = "Fill it first, for example by its method filled(0)"
        raise ArgumentError(problem, remedy, "masked")
    kind = type(meta)
    if kind.__module__.split(".")[0] == "dask" and not is_dask(x):
        problem = f"{name} is a {kind.__module__}.{kind.__qualname__}, not a dask array"
        remedy = "Make one with dask.array.from_delayed"
        raise ArgumentError(problem, remedy, "not-a-matrix")
    if is_dask(x) and hasattr(x, "expr"):
        problem = f"{name} is one of dask's array expressions, an experiment of dask's"
        remedy = "Set array.query-planning to False before dask.array is imported"
        raise ArgumentError(problem, remedy, "array-expression")
    if hasattr(kind, "toarray") or hasattr(kind, "todense"):
        problem = f"{name} is a sparse matrix ({kind.__name__})"
        raise ArgumentError(problem, "Convert it with toarray()", "sparse")


def _is_masked(x: Any) -> bool:
    """Tell a masked array, or a list of rows with one or with a masked entry in it."""
    rows = x if isinstance(x, list | tuple) else (x,)
    inner = (y for row in rows if isinstance(row, list | tuple) for y in row)
    kinds = {*map(type, rows), *map(type, inner)}
    return any(issubclass(kind, np.ma.MaskedArray) for kind in kinds)


def _as_numpy(x: Any, name: str) -> Any:
    x = os.fspath(x) if isinstance(x, os.PathLike) else x
    try:
        x = np.asarray(x)
    except Exception as error:  # an object's __array__ raises what it likes
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        problem = f"{name} cannot be converted to a NumPy array ({reason})"
        raise ArgumentError(problem, "", "not-a-matrix") from None
    if x.ndim == 0 and x.dtype.kind in "US":
        problem = f"{name} holds text, not numbers"
        remedy = "Load the file first, or call td.multiply_files or td.rank_k_files"
        raise ArgumentError(problem, remedy, "not-a-matrix")
    if x.ndim == 0 and x.dtype.kind not in "biufc":
        problem = f"{name} is not a matrix of numbers but has dtype {x.dtype}"
        raise ArgumentError(problem, "", "not-a-matrix")
    return x


class Header(NamedTuple):
    """A shape and a dtype in the place of an array.

    `largest`: the largest magnitude of its entries, where that is known.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    largest: int | None = None


def outline(x: Any) -> Header:
    """Return the header of a matrix, pairs by the dtype of their parts."""
    return Header(x.shape, part_dtype(x.dtype), getattr(x, "largest", None))


def read_shape(
    name: str, shape: Any, dtype: Any = "complex128", *, stacks: bool = False
) -> Header:
    """Return the header of a matrix, or of a stack; integers may be of any kind."""
    given = tuple(shape) if np.iterable(shape) else ()
    sizes = [size for size in map(as_integer, given) if size is not None]
    axes = max(2, len(sizes)) if stacks else 2
    if not (len(given) == len(sizes) == axes and min(sizes) >= 0):
        problem = f"{name}={shown(shape)} is not the shape of a matrix"
        raise PlanError(problem, "Give rows and columns", "not-two-dimensional")
    try:
        return Header(tuple(sizes), np.dtype(dtype))
    except (TypeError, ValueError, IndexError):
        problem = f"dtype={shown(dtype)} is not a dtype"
    raise ArgumentError(problem, "Use one of NumPy, such as complex128", "dtype")


def check_out(
    out: Any, matrices: Iterable[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> None:
    """Refuse an `out` that the result of the matrices cannot be written to."""
    given = [x for x in matrices if x is not None]
    if any(map(is_dask, given)):
        problem = "out is an array, but the result of dask arrays is lazy"
        raise PlanError(problem, "Omit out, and write the result with to_zarr", "out")
    family = family_of(given[0])
    plain = type(out).__name__ in ("ndarray", "memmap")  # no masks, no matrices
    if family_of(out) != family or not plain:
        problem = f"out is a {type(out).__name__}, but the matrices are {family} arrays"
        raise ArgumentError(problem, f"Give a {family} array", "out")
    if out.shape != shape or out.dtype != dtype:
        problem = (
            f"out is {' x '.join(map(str, out.shape))} of {out.dtype}, but the result "
            f"{' x '.join(map(str, shape))} of {dtype}"
        )
        raise PlanError(problem, f"Give empty({shape}, {str(dtype)!r})", "out")
    if out.size and _overlaps_itself(out):
        raise PlanError("out has entries that share memory", "Copy it", "out")
    if family == "cupy":
        _check_device({"out": out})
    check_place(out, [x for x in given if family_of(x) == family])


def check_place(out: Any, matrices: Iterable[Any]) -> None:
    """Refuse an `out` whose memory may not be written to, whatever its shape.

    `matrices`: those of its family.
    """
    space = namespace(out)
    if space is np and not out.flags.writeable:
        raise PlanError("out is read-only", "Copy it", "out")
    for x in matrices:
        meet = space.may_share_memory(out, x) and _meet(_Span(out), _Span(x))
        if meet or (space is np and _meet_in_file(out, x)):
            problem = "out overlaps a matrix that is read"
            raise PlanError(problem, "Give a separate array", "out")


def set_apart(c: Any, out: Any) -> Any:
    """Return c, copied if `out` is c itself, entry for entry.

    Entries that a NaN or a second attempt changes are read after `out` was written.
    """
    place = _describe(c)
    same = place is not None and place == _describe(out)
    return namespace(out).copy(c) if same else c


def _describe(x: Any) -> Any:
    """Return where entries lie, and of what dtype; None unless x is in memory."""
    described = getattr(x, "__array_interface__", None)
    return described or getattr(x, "__cuda_array_interface__", None)


def _meet_in_file(out: Any, x: Any) -> bool:
    """Tell whether writing to out may change x by a file that holds both."""
    written = _find_mapping(out)
    # Writes to copy-on-write memory do not reach the file.
    if written is None or written.mode == "c" or not out.size or not x.size:
        return False
    if (read := _find_mapping(x)) is None:
        return False
    (file, shift), (other, own_shift) = map(_locate, (written, read))
    return file == other and _meet(_Span(out, shift), _Span(x, own_shift))


class _Span:
    """The places of the entries of an array, which NumPy asks for and never reads."""

    def __init__(self, x: Any, shift: int = 0) -> None:
        self.__array_interface__ = {
            "shape": x.shape,
            "strides": x.strides,
            "typestr": x.dtype.str,
            "data": (address_of(x) + shift, False),
            "version": 3,
        }


def _meet(left: Any, right: Any) -> bool:
    """Tell whether any byte is in an entry of both, or would take long to find."""
    try:
        # CuPy has a kernel for this, for which the host would wait.
        return np.shares_memory(left, right, max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return True


def _find_mapping(x: Any) -> np.memmap[Any, Any] | None:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x if isinstance(x, np.memmap) and x.filename is not None else None


def _locate(mapping: Any) -> tuple[Any, int]:
    """Identify a file, whatever paths lead to it, and its places by their addresses."""
    try:
        found = os.stat(mapping.filename)
        file: Any = found.st_dev, found.st_ino
    except OSError:  # removed, but still mapped
        file = os.fspath(mapping.filename)
    # The first place is 1, since address 0 would stand for no array.
    return file, 1 + mapping.offset - address_of(mapping)


def _overlaps_itself(x: Any) -> bool:
    """Tell whether a step along an axis may end inside the span of shorter steps."""
    taken, steps = x.dtype.itemsize, map(abs, x.strides)
    for step, size in sorted(y for y in zip(steps, x.shape, strict=True) if y[1] > 1):
        if step < taken:
            return True
        taken += step * (size - 1)
    return False
