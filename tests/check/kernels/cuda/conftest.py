"""A stand-in for CuPy on a machine with one device."""

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

# Type of operands, type of sums, arithmetic: their C types, and the mode needed.
KINDS = {
    (3, 10, 72): (np.int8, np.int32, 0),
    (2, 0, 68): (np.float16, np.float32, 16),
}


def column_major(address, ld, rows, columns, dtype):
    """View a matrix as cuBLAS does."""
    size = np.dtype(dtype).itemsize
    length = size * (ld * (columns - 1) + rows)
    flat = np.ctypeslib.as_array((ctypes.c_char * length).from_address(address))
    flat = flat.view(np.uint8).view(dtype)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (size, size * ld))


class Cublas:
    """C = op(A) op(B) on column-major matrices of the host."""

    def __init__(self):
        self.calls = []
        self.mode, self.pointers = 3, 1  # what somebody else has set

    def getMathMode(self, handle):  # noqa: N802
        return self.mode

    def setMathMode(self, handle, mode):  # noqa: N802
        self.mode = mode

    def getPointerMode(self, handle):  # noqa: N802
        return self.pointers

    def setPointerMode(self, handle, mode):  # noqa: N802
        self.pointers = mode

    def gemmEx(self, handle, ta, tb, m, n, k, alpha, *rest):  # noqa: N802
        a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algo = rest
        self.calls.append("gemmEx")
        given, sums, mode = KINDS[a_type, c_type, compute]
        assert (b_type, self.mode) == (a_type, mode)
        assert self.pointers == 0  # the factors are the host's
        assert (handle, ta, tb, algo) == (7, 1, 0, -1)
        one, zero = (column_major(t, 1, 1, 1, sums) for t in (alpha, beta))
        assert (one, zero) == (1, 0)
        assert all(t % 16 == 0 for t in (a, b, c, lda, ldb, m, k))
        left = column_major(a, lda, k, m, given).astype(np.int32)
        right = column_major(b, ldb, k, n, given).astype(np.int32)
        column_major(c, ldc, m, n, sums)[...] = left.T @ right

    def gemmStridedBatchedEx(self, handle, ta, tb, m, n, k, alpha, *rest):  # noqa: N802
        a, a_type, lda, a_step, b, b_type, ldb, b_step = rest[:8]
        beta, c, c_type, ldc, c_step, count, compute, algo = rest[8:]
        for t in range(count):
            size = np.dtype(KINDS[a_type, c_type, compute][0]).itemsize
            left = a + size * t * a_step, a_type, lda
            right = b + size * t * b_step, b_type, ldb
            out = c + 4 * t * c_step, c_type, ldc
            shape, last = (handle, ta, tb, m, n, k, alpha), (compute, algo)
            self.gemmEx(*shape, *left, *right, beta, *out, *last)
        self.calls[-count:] = ["gemmStridedBatchedEx"]


@pytest.fixture
def cupy(monkeypatch):
    """CuPy, as far as a device asks it for anything."""

    class CUDARuntimeError(RuntimeError):
        pass

    module, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
    module.cuda, cuda.cublas = cuda, Cublas()
    cuda.device = SimpleNamespace(get_cublas_handle=lambda: 7)
    cuda.runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        streamPerThread=2,
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda i: {"name": b"Old GPU", "totalGlobalMem": 1 << 30},
        memGetInfo=lambda: (5, 10),
    )
    cuda.Device = lambda: SimpleNamespace(id=0, compute_capability="90")
    cuda.MemoryPool, cuda.get_allocator = SimpleNamespace, lambda: print
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    return module
