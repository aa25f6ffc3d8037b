"""``method="auto"``: the size from which on products go through int8.

A product through int8 passes over A, B and C some hundred times, which its faster
multiplications have to win back. So it is faster from some ``1 / (1/m + 1/n + 1/k)``
on, as a level of Winograd's algorithm is (`kernels.winograd`); smaller products are
native. m, n and k are those of the whole product, or of each in a stack: the choice
does not depend on tiles or chunks.
"""

from functools import cache
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ..config import setting, size_setting
from ..kernels.limits import Shape
from ..kernels.registry import load_engine
from ..tiles.spec import Spec
from .choice import Choice


class Crossover(NamedTuple):
    """A size, what it was measured on, and the results in `benchmarks/results`."""

    size: float
    device: str
    results: str


_XEON = "Intel Xeon with AVX512-VNNI and AMX, 2 cores"
_H200 = "NVIDIA H200"

# The default accuracy against NumPy's and CuPy's products, by engine, routine and
# dtype. Missing entries were not measured to be faster on all devices, at any size.
# CPU: gemm of complex128 0.44, 0.76, 0.83 times as fast as NumPy on the Xeon, n = 1024,
#      2048, 3072, and 0.81, 0.99, 1.02 on an AMD EPYC of family 26, n = 1024, 2048,
#      4096; herk of complex128 1.05, 1.26, 1.41 (and 1.43, 1.76, 2.05 with 16 moduli on
#      the EPYC), of complex64 1.05, 1.31, 1.47 (Xeon alone); float64 and float32 at
#      most 0.63: they take as many moduli for a quarter of the native work.
# H200: gemm 0.19, 0.66, 1.17, 1.82, n = 1024, 2048, 3000, 4096; herk with 16 moduli
#      0.84, 2.08, 2.65, 3.84; the default takes 2.2 times as long as these at 2048 and
#      1.56 times at 3000. Other dtypes were measured at 8192 alone: 5.7 (complex64),
#      1.27 (float64), 2.5.
_TABLE: dict[tuple[str, str, str], Crossover] = {
    **{
        ("cpu", "herk", dtype): Crossover(682.0, _XEON, "crossover-cpu-xeon.jsonl")
        for dtype in ("complex128", "complex64")
    },
    **{
        ("cuda", routine, dtype): Crossover(size, _H200, "gpu.jsonl")
        for routine in ("gemm", "herk", "syrk")
        for dtype, size in (
            *(("complex128", 1000.0), ("complex64", 2730.0)),
            *(("float64", 2730.0), ("float32", 2730.0)),
        )
    },
}
# Routines whose products are made of those of gemm.
_LIKE_GEMM = ("her2k", "syr2k")


def measure(shape: Shape) -> float:
    """Return the size of an m x n x k product, at most that of its smallest side.

    Examples
    --------
    >>> measure((3000, 3000, 3000)), measure((100, 5000, 0))
    (1000.0, 0.0)
    """
    m, n, k = shape
    return m * n * k / (m * n + n * k + k * m) if m and n and k else 0.0


def prefers_native(engine: str, routine: str, dtype: Any, shape: Shape) -> bool:
    """Tell whether the native product was measured to be faster, or none was measured.

    Parameters
    ----------
    engine : str
        "auto" while it is unknown, which counts as that of NumPy arrays.
    routine : str
    dtype : numpy.dtype
        Of the result.
    shape : (m, n, k)
        Of the whole product.
    """
    if engine == "reference":
        return False
    given = size_setting("blas-below")
    if given is not None:
        return measure(shape) < given
    known = _find(engine, routine, np.dtype(dtype).char)
    if known is None or measure(shape) < known.size:
        return True
    return engine != "cuda" and not _has_vnni()


def is_small(dtype: np.dtype[Any], shape: Shape) -> bool:
    """Tell whether all products of NumPy arrays of this shape are native."""
    return measure(shape) < _least(dtype.char) and setting("blas-below") is None


@cache
def _least(char: str) -> float:
    """Find the least crossover of a dtype for NumPy arrays."""
    found = (_find("cpu", routine, char) for routine in ("gemm", "herk", "syrk"))
    return min((x.size for x in found if x is not None), default=inf)


@cache
def _find(engine: str, routine: str, char: str) -> Crossover | None:
    name = "cpu" if engine == "auto" else engine
    rule = "gemm" if routine in _LIKE_GEMM else routine
    return _TABLE.get((name, rule, np.dtype(char).name))


@cache
def _has_vnni() -> bool:
    # Without it int8 products took 1.5 to 13 times as long as NumPy's at all sizes
    # measured, 512 to 1536 (AMD EPYC of family 25; crossover-cpu-zen3.jsonl).
    return bool(load_engine("cpu").name_kernel() == "avx512-vnni")


def tell_choice(spec: Spec, shape: Shape, choice: Choice) -> str:
    """Say why a method was chosen by "auto"."""
    if choice.decisive:
        return f"int8, since {choice.decisive} was given"
    if spec.engine == "reference":
        return "int8, which is all that the reference engine does"
    name, size = spec.routine.name, measure(shape)
    given = size_setting("blas-below")
    known = _find(spec.engine, name, np.dtype(spec.dtype).char)
    if given is None and known is None:
        kind = f"{name} of {np.dtype(spec.dtype).name}"
        return f"native, since int8 was not measured to be faster for {kind}"
    limit, source = (
        (given, "the setting twom-dist.blas-below")
        if known is None or given is not None
        else (known.size, f"{known.device}, {known.results}")
    )
    assert limit is not None
    if size < limit:
        return f"native: size {size:.0f} is below {limit:.0f} ({source})"
    if spec.native:
        return "native, since this CPU has no AVX512-VNNI"
    return f"int8: size {size:.0f} is at least {limit:.0f} ({source})"
