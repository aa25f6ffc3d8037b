"""The integer products of cuBLAS, through CuPy."""

from typing import Any

import numpy as np

from ...typing import Array

# cuBLAS and CUDA constants that CuPy does not name.
_CUDA_R_32F, _CUDA_R_16F = 0, 2
_CUDA_R_8I, _CUDA_R_32I = 3, 10
_CUBLAS_COMPUTE_32F, _CUBLAS_COMPUTE_32I = 68, 72
_CUBLAS_GEMM_DEFAULT = -1
_CUBLAS_DEFAULT_MATH, _CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 0, 16
_OP_N, _OP_T = 0, 1
_POINTER_MODE_HOST = 0

# Types of operands, sums and arithmetic; the factors of products and sums; math mode.
INT8 = (
    *(_CUDA_R_8I, _CUDA_R_32I, _CUBLAS_COMPUTE_32I),
    *(np.array([1, 0], np.int32), _CUBLAS_DEFAULT_MATH),
)
FLOAT16 = (
    *(_CUDA_R_16F, _CUDA_R_32F, _CUBLAS_COMPUTE_32F),
    *(np.array([1, 0], np.float32), _CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
)


def multiply(types: Any, x: Array, y: Array, sums: Array) -> None:
    """sums[b] = x[b] y[b]^T by cuBLAS, in the mode that this needs."""
    from cupy.cuda import cublas, device

    of_operands, of_sums, arithmetic, factors, mode = types
    handle = device.get_cublas_handle()  # this thread's own
    batch, m, n = sums.shape
    # Row-major sums are the column-major Y X^T, of Y^T and X in column-major terms.
    left = (y.data.ptr, of_operands, y.strides[1] // y.itemsize)
    right = (x.data.ptr, of_operands, x.strides[1] // x.itemsize)
    out = (sums.data.ptr, of_sums, sums.strides[1] // 4)
    head = (handle, _OP_T, _OP_N, n, m, x.shape[2])
    one, zero = factors.ctypes.data, factors[1:].ctypes.data
    tail = (arithmetic, _CUBLAS_GEMM_DEFAULT)
    steps = [t.strides[0] // t.itemsize for t in (y, x, sums)]
    # The handle is CuPy's: somebody may have left factors to be read on the device.
    before = cublas.getMathMode(handle), cublas.getPointerMode(handle)
    try:
        cublas.setMathMode(handle, mode)
        cublas.setPointerMode(handle, _POINTER_MODE_HOST)
        if batch == 1:
            cublas.gemmEx(*head, one, *left, *right, zero, *out, *tail)
        else:
            cublas.gemmStridedBatchedEx(
                *(*head, one, *left, steps[0], *right, steps[1]),
                *(zero, *out, steps[2], batch, *tail),
            )
    finally:
        cublas.setMathMode(handle, before[0])
        cublas.setPointerMode(handle, before[1])
