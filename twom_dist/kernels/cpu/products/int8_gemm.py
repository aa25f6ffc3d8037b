"""The GEMM of a library for small integers, checked when it is first used.

BLAS multiplies them as float32, exactly as long as sums stay below 2^24. ONNX Runtime
multiplies u8 x s8, where it is installed and the processor has instructions for that.
x86 without VNNI has none: sums of pairs would saturate, and in the ways around that
ONNX Runtime takes as long as BLAS.
"""

import platform
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import numpy as np

from ....errors import KernelError
from ....typing import Array
from ..tuning import LARGEST_K
from ..units import has_vnni
from .blas import single_threaded


@dataclass(frozen=True)
class Gemm:
    """An exact product of residues, or of numbers from 0 to 127.

    Attributes
    ----------
    name : str
    left, right, sums : dtype
        Of the entries of the matrices, and of their product.
    longest : int
        The largest k whose sums are exact.
    multiply : function
        Write ``a @ b`` into sums: C-contiguous matrices, or batches of them. Residues
        are symmetric, but those of an unsigned left side from 0 to p - 1.
    own_threads : function
        Make a context in which a call takes one thread.
    """

    name: str
    left: np.dtype[Any]
    right: np.dtype[Any]
    sums: np.dtype[Any]
    longest: int
    multiply: Callable[[Array, Array, Array], object]
    own_threads: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def unsigned(self) -> bool:
        """True if the left side is."""
        return self.left.kind == "u"


_making = threading.Lock()


def _session() -> Any:
    """Return the one session; several, and bindings would not fit them."""
    with _making:
        return _make_session()


@cache
def _make_session() -> Any:
    """Make a single-threaded session; concurrent runs of it are safe."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    model = files(__package__).joinpath("matmul_u8s8.onnx").read_bytes()
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"]
    )


_bindings = threading.local()


def _binding() -> Any:
    """Return this thread's binding: making one costs more than a small product."""
    cached = getattr(_bindings, "u8s8", None)
    if cached is None:
        cached = _bindings.u8s8 = _session().io_binding()
    return cached


def multiply_u8s8(a: Array, b: Array, out: Array) -> None:
    """u8 x s8 -> s32 through ONNX Runtime."""
    binding = _binding()
    for key, x in (("A", a), ("B", b)):
        binding.bind_input(key, "cpu", 0, x.dtype.type, x.shape, x.ctypes.data)
    binding.bind_output("C", "cpu", 0, np.int32, out.shape, out.ctypes.data)
    _session().run_with_iobinding(binding)


def multiply_float32(a: Array, b: Array, out: Array) -> None:
    """Integers as float32, by BLAS."""
    np.matmul(a, b, out=out)


_U8, _S8, _S32, _F32 = map(np.dtype, ("u1", "i1", "i4", "f4"))
BYTES = _U8, _S8, _S32
U8S8 = Gemm("u8s8", *BYTES, LARGEST_K, multiply_u8s8)
# |sum| <= 1024 * 128^2 = 2^24: exact in float32.
FLOAT32 = Gemm("float32", _F32, _F32, _F32, 1024, multiply_float32, single_threaded)


def multiplies_bytes() -> bool:
    """Tell whether this processor multiplies int8 by instructions of its own."""
    return has_vnni() or platform.machine() not in ("x86_64", "AMD64")


def has_onnx_runtime() -> bool:
    """Tell whether ONNX Runtime is installed, without loading it."""
    return find_spec("onnxruntime") is not None


def is_exact(gemm: Gemm) -> bool:
    """Multiply extreme values and compare with the exact sums.

    255 x ±127 is what saturates; odd sizes reach the kernels' remainder loops.
    """
    m, n, k = 37, 67, min(1031, gemm.longest)
    top, step = (255, 1) if gemm.unsigned else (-128, -1)
    for value in (127, -128):
        a, b = np.full((m, k), top, gemm.left), np.full((k, n), value, gemm.right)
        a[1::2], b[:, 1::3] = top - step, -127
        out = np.empty((m, n), gemm.sums)
        with gemm.own_threads():
            gemm.multiply(a, b, out)
        if not np.array_equal(out, a.astype(np.int64) @ b.astype(np.int64)):
            return False
    return True


@cache
def get_gemm() -> Gemm:
    """Return the fastest product that is exact here."""
    for gemm in (U8S8, FLOAT32):
        if gemm is U8S8 and not (multiplies_bytes() and has_onnx_runtime()):
            continue
        if is_exact(gemm):
            return gemm
    raise KernelError(
        "float32 BLAS failed its check of small integers",
        "Reinstall numpy",
        "no-exact-product",
    )


def multiply_small(a: Array, b: Array, out: Array) -> None:
    """Write the product of bytes below 128 into int32, whatever k up to 2^16 is."""
    gemm = get_gemm()
    if gemm.unsigned:
        gemm.multiply(a, b.view(np.int8), out)
        return
    out[...] = 0
    sums = np.empty(out.shape, gemm.sums)
    for lo in range(0, a.shape[-1], gemm.longest):
        own = slice(lo, lo + gemm.longest)
        gemm.multiply(a[:, own].astype(gemm.left), b[own].astype(gemm.right), sums)
        out += sums.astype(np.int32)
