"""Argument checks: everything that shapes, dtypes and options can tell.

Each error says what was given, what is allowed and what to do, before anything runs.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .accuracy import NATIVE_METHOD, choose_system
from .errors import AccuracyError, PlanError
from .kernels.family import Family, family_of, namespace
from .kernels.registry import ENGINES
from .moduli import ResidueSystem
from .typing import Op

DTYPES = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
OPS = ("N", "T", "C")
UPLOS = ("full", "lower", "upper")
SCALINGS = ("norm", "accurate")
# The largest upper bound of a magnitude in the accurate mode; see kernels.contract.
_LARGEST_MAGNITUDE = 91


@dataclass(frozen=True)
class Options:
    """The keyword options that every routine shares."""

    accuracy: str | float | None = None
    num_moduli: int | None = None
    method: str = "2m"
    scaling: str = "norm"
    engine: str = "auto"


@dataclass(frozen=True)
class Routine:
    """A rank-k or rank-2k update: what its name computes, and what it takes."""

    name: str
    hermitian: bool
    two: bool

    @property
    def transposed(self) -> Op:
        """The op that is not "N"."""
        return "C" if self.hermitian else "T"

    def ops(self, op: str) -> tuple[Op, Op]:
        """Return op_a and op_b of the product behind an update."""
        return ("N", self.transposed) if op == "N" else (self.transposed, "N")


ROUTINES = {
    routine.name: routine
    for routine in (
        Routine("herk", hermitian=True, two=False),
        Routine("syrk", hermitian=False, two=False),
        Routine("her2k", hermitian=True, two=True),
        Routine("syr2k", hermitian=False, two=True),
    )
}


def make_options(given: dict[str, Any]) -> Options:
    """Collect keyword options, or name the one that does not exist."""
    allowed = Options.__dataclass_fields__
    for name in given:
        if name not in allowed:
            raise TypeError(
                f"option {name!r} given; the options are {', '.join(allowed)}"
            )
    return Options(**given)


def is_dask(x: Any) -> bool:
    """Tell a dask array without importing dask."""
    return type(x).__module__.split(".")[0] == "dask" and hasattr(x, "chunks")


def common_family(**arrays: Any) -> Family:
    """Return the family of all blocks: NumPy or CuPy, inside dask arrays or not."""
    given = {name: x for name, x in arrays.items() if x is not None}
    families = {name: family_of(getattr(x, "_meta", x)) for name, x in given.items()}
    if len(set(families.values())) > 1:
        parts = ", ".join(f"{name} is {family}" for name, family in families.items())
        raise TypeError(
            f"{parts} (of a dask array: its blocks); CuPy arrays are multiplied with "
            "CuPy arrays only: move the others with cupy.asarray (blocks with "
            "map_blocks), or these with cupy.asnumpy"
        )
    family: Family = next(iter(families.values()), "numpy")
    if family == "cupy":
        _check_device({name: x for name, x in given.items() if not is_dask(x)})
    return family


def _check_device(arrays: dict[str, Any]) -> None:
    """Refuse CuPy arrays that do not lie on the current device."""
    devices = {name: x.device.id for name, x in arrays.items()}
    if len(set(devices.values())) > 1:
        where = ", ".join(f"{name} lies on device {i}" for name, i in devices.items())
        raise PlanError(
            f"{where}; arrays of one device are multiplied: copy the others there, "
            "with cupy.asarray in a `with cupy.cuda.Device(i):` block"
        )
    for name, i in devices.items():
        current = namespace(arrays[name]).cuda.Device().id
        if i != current:
            raise PlanError(
                f"{name} lies on device {i} and the current device is {current}; "
                f"multiply inside `with cupy.cuda.Device({i}):`"
            )


def as_matrix(x: Any, name: str) -> Any:
    """Return x as a two-dimensional NumPy or dask array."""
    meta = getattr(x, "_meta", x)
    if isinstance(meta, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, and masks have no product; fill it first, with "
            f"{name}.filled(0) for example"
        )
    if hasattr(meta, "toarray") or hasattr(meta, "todense"):
        raise TypeError(
            f"{name} is a sparse matrix ({type(meta).__name__}); dense ones are "
            "multiplied: convert it with toarray()"
        )
    if not is_dask(x) and family_of(x) == "numpy":
        try:
            x = np.asarray(x)
        except ValueError:
            raise TypeError(f"{name} is no matrix that NumPy understands") from None
        if x.ndim == 0 and x.dtype.kind not in "biufc":
            raise TypeError(
                f"{name} is of dtype {x.dtype}; a matrix of numbers is needed"
            )
    if x.ndim != 2:
        raise PlanError(
            f"{name} has shape {tuple(x.shape)}; a matrix with two dimensions is "
            f"needed: use {name}.reshape(rows, columns)"
        )
    return x


def result_dtype(letter: str | None, **arrays: Any) -> np.dtype[Any]:
    """Return the dtype of the product, or refuse what cannot be promoted to it.

    Parameters
    ----------
    letter : {"s", "d", "c", "z"} or None
        Of the BLAS-typed routine; None promotes the inputs together.
    **arrays : array
        By the name that an error shows.
    """
    given = {name: x.dtype for name, x in arrays.items() if x is not None}
    dtype: np.dtype[Any]
    for name, source in given.items():
        if source.kind not in "biufc":
            raise TypeError(
                f"{name} has dtype {source}; real, complex and integer numbers are "
                "multiplied: convert it with astype"
            )
    if letter is None:
        dtype = np.result_type(*given.values())
        if dtype.kind in "biu":
            dtype = np.result_type(dtype, np.float64)
        if dtype == np.float16:
            dtype = np.dtype(np.float32)
        if dtype.name not in DTYPES.values():
            raise TypeError(
                f"the inputs promote to {dtype}; products are in "
                f"{', '.join(DTYPES.values())}: convert them with astype"
            )
    else:
        dtype = np.dtype(DTYPES[letter])
    for name, source in given.items():
        if not np.can_cast(source, dtype, "safe"):
            raise TypeError(
                f"{name} has dtype {source}, which {dtype} cannot hold safely; convert "
                f"it with astype, or call the routine of its own type"
            )
    return dtype


def product_dtype(dtype: Any) -> np.dtype[Any]:
    """Accept one of the four dtypes of products."""
    found: np.dtype[Any] | None
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.name not in DTYPES.values():
        raise TypeError(
            f"dtype={dtype!r} given; products are in {', '.join(DTYPES.values())}"
        )
    return found


def check_op(op: Any, name: str) -> Op:
    """Accept "N", "T" or "C"."""
    if not isinstance(op, str) or op not in OPS:
        raise PlanError(
            f"{name}={op!r} given; allowed are 'N' (as it is), 'T' (transposed) and "
            "'C' (conjugate-transposed)"
        )
    return cast(Op, op)


def check_scalar(value: Any, name: str, dtype: np.dtype[Any]) -> complex:
    """Accept a number that the routine's type can hold."""
    try:
        number = complex(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or isinstance(value, str) or np.ndim(value) != 0:
        raise TypeError(f"{name}={value!r} given; {name} is a number")
    if number.imag != 0 and dtype.kind != "c":
        raise TypeError(
            f"{name}={value!r} given; a {dtype} product takes a real {name}: convert "
            "the matrices to a complex dtype"
        )
    return number


def check_options(
    options: Options, dtype: np.dtype[Any], k: int
) -> ResidueSystem | None:
    """Return the residue system that the options ask for, None for the native product.

    Raises
    ------
    AccuracyError, PlanError
        For contradictory options or names that do not exist.
    """
    if options.engine not in ENGINES:
        raise PlanError(
            f"engine={options.engine!r} given; allowed are "
            f"{', '.join(map(repr, ENGINES))}"
        )
    if options.scaling not in SCALINGS:
        raise PlanError(
            f"scaling={options.scaling!r} given; allowed are 'norm' and 'accurate'"
        )
    if options.method == NATIVE_METHOD:
        if options.num_moduli is not None or options.accuracy not in (None, "native"):
            raise AccuracyError(
                "method='native' has the accuracy of the BLAS it calls; leave accuracy "
                "and num_moduli out, or take another method"
            )
        return None
    system = choose_system(
        options.method, dtype, max(k, 1), options.accuracy, options.num_moduli
    )
    if options.scaling == "accurate" and system.capacity < k * _LARGEST_MAGNITUDE**2:
        raise AccuracyError(
            f"scaling='accurate' with {system.num_moduli} moduli and k={k} given; so "
            "few moduli leave no room for its bounds: use more, or scaling='norm'"
        )
    return system


def op_shape(x: Any, op: Op) -> tuple[int, int]:
    """Shape of op(x)."""
    rows, columns = x.shape
    return (rows, columns) if op == "N" else (columns, rows)


def check_product_shapes(
    a: Any, b: Any, c: Any, op_a: Op, op_b: Op
) -> tuple[int, int, int]:
    """Return (m, n, k) of ``op(A) op(B)``, or say which dimensions disagree."""
    for x, name in ((a, "A"), (b, "B"), (c, "C")):
        if x is not None and any(np.isnan(size) for size in x.shape):
            raise PlanError(
                f"{name} has chunks of unknown size; call {name}.compute_chunk_sizes() "
                "first"
            )
    (m, k), (k_b, n) = op_shape(a, op_a), op_shape(b, op_b)
    if k != k_b:
        raise PlanError(
            f"op(A) is {m} x {k} and op(B) is {k_b} x {n}; the inner dimensions must "
            f"agree (op_a={op_a!r}, op_b={op_b!r})"
        )
    if c is not None and tuple(c.shape) != (m, n):
        raise PlanError(
            f"C has shape {tuple(c.shape)} and op(A) op(B) is {m} x {n}; they must "
            "agree"
        )
    return int(m), int(n), int(k)


def check_update_shapes(a: Any, b: Any, c: Any, op: str) -> tuple[int, int]:
    """Return (n, k) of a rank-k or rank-2k update, or say what disagrees."""
    for x, name in ((a, "A"), (b, "B"), (c, "C")):
        if x is not None and any(np.isnan(size) for size in x.shape):
            raise PlanError(
                f"{name} has chunks of unknown size; call {name}.compute_chunk_sizes() "
                "first"
            )
    n, k = op_shape(a, "N" if op == "N" else "T")
    if b is not None and tuple(b.shape) != tuple(a.shape):
        raise PlanError(
            f"A has shape {tuple(a.shape)} and B {tuple(b.shape)}; they must agree"
        )
    if c is not None and tuple(c.shape) != (n, n):
        raise PlanError(
            f"C has shape {tuple(c.shape)}; the result is square, {n} x {n}, and C "
            "must agree"
        )
    return int(n), int(k)


def check_real_scalars(routine: Routine, alpha: complex, beta: complex) -> None:
    """Refuse scalars that would take a Hermitian routine its symmetry."""
    scalars = {"beta": beta} if routine.two else {"alpha": alpha, "beta": beta}
    for name, value in scalars.items():
        if routine.hermitian and value.imag != 0:
            raise TypeError(
                f"{name}={value} given; {routine.name} takes a real {name}, or its "
                "result would not be Hermitian: use gemm"
            )


def check_update_names(routine: Routine, op: Any, uplo: Any) -> None:
    """Accept the names of an op and of a triangle."""
    if op not in ("N", routine.transposed):
        raise PlanError(
            f"op={op!r} given; {routine.name} takes 'N' and {routine.transposed!r}"
        )
    if uplo not in UPLOS:
        raise PlanError(
            f"uplo={uplo!r} given; allowed are {', '.join(map(repr, UPLOS))}"
        )
