"""Arrays of other libraries: read without a copy, and results in the same library.

Arrays are exchanged by DLPack, which PyTorch, JAX and all array API libraries support.
"""

import sys
from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np

from ..errors import INSTALL_CUDA, ArgumentError, EngineUnavailableError
from ..kernels.family import family_of
from .disk_arrays import is_on_disk, open_lazily

GiveBack = Callable[[Any], Any]

_OURS = {np.ndarray, NoneType}  # types of the arguments of most calls

# Devices of DLPack, by its DLDeviceType. Memory of the host, of whatever origin:
_HOST = (1, 3, 11)
_CUDA = (2, 13)

# Flags that PyTorch sets on a tensor instead of computing: NumPy would miss a minus.
_NOTES = (
    ("is_conj", "resolve_conj", "conjugate"),
    ("is_neg", "resolve_neg", "negative"),
)


def adopt(**arrays: Any) -> tuple[list[Any], GiveBack]:
    """Take arrays of any library as NumPy, CuPy or dask arrays of the same memory.

    Returns them in their order, and a function that converts results to the kind of the
    first array of another library. Arrays on disk become lazy ones; anything else (a
    list, a shape) stays as it is, for others to check. Their names are those in errors,
    and ``out`` is one to write to: it is given back itself.
    """
    if _OURS.issuperset(map(type, arrays.values())):
        return [*arrays.values()], _as_it_is
    taken: dict[int, Any] = {}  # one array in two places stays one
    importer = None
    for name, x in arrays.items():
        if id(x) in taken:
            continue
        taken[id(x)] = view = _take(x, name)
        if importer is None and _is_foreign(x) and name != "out":
            importer = _importer_of(x)
        # An old DLPack, that of PyTorch before 2.9, say, cannot say that a view may be
        # written to; what it shows NumPy directly is the same memory.
        if name == "out" and isinstance(view, np.ndarray) and not view.flags.writeable:
            other = np.asarray(x) if hasattr(type(x), "__array__") else view
            if other.flags.writeable and np.shares_memory(other, view):
                taken[id(x)] = other
    found = [taken[id(x)] for x in arrays.values()]
    out = arrays.get("out")
    written = taken.get(id(out))

    def give_back(result: Any) -> Any:
        if isinstance(result, tuple):
            return tuple(map(give_back, result))
        if out is not None and result is written:
            if family_of(result) == "cupy" and written is not out:
                # An import makes the stream of that library wait for ours.
                _import(_importer_of(out), result)
            return out
        ours = isinstance(result, np.ndarray | np.generic)
        ours = ours or family_of(result) == "cupy"
        return _import(importer, result) if ours else result

    unchanged = importer is None and written is out
    return found, _as_it_is if unchanged else give_back


def _as_it_is(result: Any) -> Any:
    return result


def _import(importer: GiveBack | None, result: Any) -> Any:
    if importer is None:
        return result
    given = np.asarray(result) if isinstance(result, np.generic) else result
    found = importer(given)
    if getattr(found.dtype, "itemsize", given.itemsize) != given.itemsize:
        raise ArgumentError(
            f"the result is {given.dtype}, but its library would cut it to "
            f"{found.dtype}",
            "Have JAX keep 64 bits (jax_enable_x64), or give NumPy arrays",
            "narrowed",
        )
    return found


def _is_foreign(x: Any) -> bool:
    ours = isinstance(x, np.ndarray) or family_of(x) == "cupy"
    return not ours and hasattr(type(x), "__dlpack__")


def _importer_of(x: Any) -> GiveBack | None:
    """Return the function that makes arrays of this library, if it has one."""
    if hasattr(x, "__array_namespace__"):
        library = x.__array_namespace__()
    else:
        library = sys.modules.get(type(x).__module__.split(".")[0])
    found: GiveBack | None = getattr(library, "from_dlpack", None)
    return found


def _take(x: Any, name: str) -> Any:
    if _is_foreign(x):
        return _take_dlpack(x, name)
    if name == "out":
        return x
    kind = type(x)
    if kind.__module__.split(".")[0] == "xarray":
        problem = f"{name} is an xarray.{kind.__name__}, whose dimensions have names"
        remedy = "Give its values, or call td.xarray.gemm or td.xarray.herk with dim"
        raise ArgumentError(problem, remedy, "labelled")
    return open_lazily(x, name) if is_on_disk(x) else x


def _take_dlpack(x: Any, name: str) -> Any:
    if getattr(x, "requires_grad", False):
        problem = f"{name} requires a gradient, but products here have none"
        remedy = "Give what its method detach() returns"
        raise ArgumentError(problem, remedy, "gradient")
    for note, method, word in _NOTES:
        if hasattr(x, note) and getattr(x, note)():
            remedy = f"Give what its method {method}() returns"
            if note == "is_conj" and name in ("A", "B"):
                remedy += f", or in gemm X and op_{name.lower()}='C' for X.mH"
            problem = f"{name} is a lazy {word}: its memory holds other numbers"
            remedy = "Give a plain tensor" if name == "out" else remedy
            raise ArgumentError(problem, remedy, "lazy-view")
    try:
        device = int(x.__dlpack_device__()[0])
        if device in _HOST:
            return np.from_dlpack(x)
        if device in _CUDA:
            import cupy

            return cupy.from_dlpack(x)
    except ImportError as error:
        problem = f"{name} lies on a CUDA device, and CuPy is not installed"
        remedy = f"Install it with {INSTALL_CUDA}"
        raise EngineUnavailableError(problem, remedy, "no-cupy") from error
    except Exception as error:  # the other library raises what it likes
        kind, reason = type(x), f"{type(error).__name__}: {error}".splitlines()[0]
        problem = (
            f"the memory of {name}, a {kind.__module__}.{kind.__qualname__}, cannot be "
            f"taken ({reason})"
        )
        raise ArgumentError(problem, "", "not-a-matrix") from None
    problem = f"{name} lies on a device of type {device}, where no engine multiplies"
    raise ArgumentError(problem, "Copy it to the host", "device-kind")
