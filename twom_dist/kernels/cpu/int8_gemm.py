"""The int8 GEMM: ONNX Runtime's u8 x s8, checked when it is first used.

x86 without VNNI adds pairs of u8 x s8 products in saturating int16. A product of
extreme values tells; u8 x u8 and then float32 BLAS take over where it fails.
"""

import threading
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from ...errors import KernelError
from ...typing import Array

# (name, right operand's dtype); the left operand is always uint8.
KERNELS = ("u8s8", "u8u8", "float32")
# |sum| <= kb * 255 * 128 < 2^24: exact in float32.
_FLOAT32_K = 512

Gemm = Callable[[Array, Array, Array], None]


_making = threading.Lock()


def _session(name: str) -> Any:
    """Return the one session; several, and bindings would not fit them."""
    with _making:
        return _make_session(name)


@cache
def _make_session(name: str) -> Any:
    """Make a single-threaded session; concurrent runs of it are safe."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    model = files(__package__).joinpath(f"matmul_{name}.onnx").read_bytes()
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"]
    )


_bindings = threading.local()


def _binding(name: str) -> Any:
    """Return this thread's binding: making one costs more than a small product."""
    cached = getattr(_bindings, name, None)
    if cached is None:
        cached = _session(name).io_binding()
        setattr(_bindings, name, cached)
    return cached


def _run(name: str, a: Array, b: Array, out: Array) -> None:
    """out = a @ b for C-contiguous (batches of) matrices, in int32."""
    binding = _binding(name)
    for key, x in (("A", a), ("B", b)):
        binding.bind_input(key, "cpu", 0, x.dtype.type, x.shape, x.ctypes.data)
    binding.bind_output("C", "cpu", 0, np.int32, out.shape, out.ctypes.data)
    _session(name).run_with_iobinding(binding)


def multiply_u8s8(a: Array, b: Array, out: Array) -> None:
    """u8 x s8 -> s32 through ONNX Runtime."""
    _run("u8s8", a, b, out)


def multiply_u8u8(a: Array, b: Array, out: Array) -> None:
    """u8 x (s8 + 128) -> s32, minus 128 times the row sums of a."""
    _run("u8u8", a, b.view(np.uint8) ^ np.uint8(0x80), out)
    out -= 128 * a.sum(axis=-1, dtype=np.int32)[..., np.newaxis]


def multiply_float32(a: Array, b: Array, out: Array) -> None:
    """Float32 BLAS on pieces of k whose sums stay below 2^24."""
    out[...] = 0
    for start in range(0, a.shape[-1], _FLOAT32_K):
        piece = slice(start, start + _FLOAT32_K)
        left = a[..., piece].astype(np.float32)
        out += np.matmul(left, b[..., piece, :].astype(np.float32)).astype(np.int32)


_KERNELS: dict[str, Gemm] = {
    "u8s8": multiply_u8s8,
    "u8u8": multiply_u8u8,
    "float32": multiply_float32,
}


def is_exact(gemm: Gemm) -> bool:
    """Multiply extreme values and compare with the exact sums.

    255 x ±127 is what saturates; odd sizes reach the kernels' remainder loops.
    """
    m, n, k = 37, 67, 1031
    for value in (127, -128):
        a = np.full((m, k), 255, np.uint8)
        b = np.full((k, n), value, np.int8)
        a[1::2], b[:, 1::3] = 254, -127
        out = np.empty((m, n), np.int32)
        gemm(a, b, out)
        if not np.array_equal(out, a.astype(np.int64) @ b.astype(np.int64)):
            return False
    return True


@cache
def select_kernel() -> str:
    """Name the first kernel that is exact on this machine."""
    for name in KERNELS:
        if is_exact(_KERNELS[name]):
            return name
    raise KernelError(
        "no int8 product is exact on this machine: u8s8, u8u8 and float32 BLAS all "
        "failed their check",
        "Reinstall numpy and onnxruntime",
        "no-exact-product",
    )


@cache
def get_small_gemm() -> Gemm:
    """Return the fastest product that is exact for numbers from 0 to 127.

    No sum of two of their products saturates: u8s8 suffices wherever it runs.
    """
    get_gemm()
    a = np.full((37, 1031), 127, np.uint8)
    b = np.full((1031, 67), 127, np.int8)
    a[1::2], b[:, 1::3] = 126, 125
    out = np.empty((37, 67), np.int32)
    for gemm in _KERNELS.values():
        gemm(a, b, out)
        if np.array_equal(out, a.astype(np.int64) @ b.astype(np.int64)):
            return gemm
    raise AssertionError("a product that passes the other check passes this one")


def get_gemm() -> Gemm:
    """Return the fastest product that is exact here."""
    return _KERNELS[select_kernel()]
