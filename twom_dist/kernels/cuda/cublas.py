"""The integer products of cuBLAS, through CuPy: sizes of calls, and their check.

Tensor cores need "TN": both operands K-major, as planes are stored, and leading
dimensions in multiples of 16. Row-major sums (m x n) are, to cuBLAS, the column-major
``Y X^T``.

cuBLAS may refuse int8 on a new chip, and sums of float16 need not keep the 24 bits that
they keep on Hopper: some chips align products before they add. And the release notes of
cuBLAS tell of int8 products that were wrong for some shapes only: in 13.0.0, and, up to
13.7, where k is split between blocks. So each kind of chip is checked, once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import KernelError
from ...moduli import PlaneProduct, ResidueSystem
from ...typing import Array
from .tuning import Element

# |sum| <= 2^16 * 128 * 128 = 2^30: the columns of k between two reductions modulo p.
LARGEST_K = 1 << 16
ALIGNMENT = 16


def align(length: int, to: int = ALIGNMENT) -> int:
    """Round up to what tensor cores take."""
    return -(-length // to) * to


def largest_k(moduli: Iterable[int], element: Element) -> int:
    """Columns of k between two reductions modulo any of these, in multiples of 16.

    Sums in float32 are exact below 2^24, and residues at most p // 2.

    >>> [largest_k([p], "float16") for p in (97, 241, 256)]
    [7280, 1152, 1008]
    """
    if element == "int8":
        return LARGEST_K
    largest = min(max(moduli), 256) // 2
    return ((1 << 24) - 1) // largest**2 // ALIGNMENT * ALIGNMENT


@dataclass(frozen=True)
class Batch:
    """Products whose planes lie at constant distances in memory."""

    products: tuple[int, ...]
    left: int  # plane of the first one
    right: int
    step: int  # from one product's planes to the next one's, of either operand


def group_products(
    products: Sequence[PlaneProduct],
    own: Sequence[int],
    left_order: Sequence[int],
    right_order: Sequence[int],
    largest: int,
    only: int | None = None,
) -> Iterator[Batch]:
    """Group the products `own` into strided batches of at most `largest`.

    The orders tell where the planes of each operand stand in its memory; `only` is the
    one step that batches of several products may have.

    >>> from twom_dist.moduli import residue_system
    >>> products, six = residue_system("2m", 3).products, range(6)
    >>> [batch.products for batch in group_products(products, six, six, six, 4)]
    [(0, 1, 2, 3), (4, 5)]
    >>> swapped = (1, 0, 3, 2, 5, 4)
    >>> [batch.products for batch in group_products(products, six, six, swapped, 4)]
    [(0, 2, 4), (1, 3, 5)]
    """
    apart: dict[int, list[tuple[int, int]]] = {}
    for q in own:
        left, right = left_order[products[q].left], right_order[products[q].right]
        apart.setdefault(right - left, []).append((q, left))
    for distance, members in apart.items():
        while members:
            gaps = [b - a for (_, a), (_, b) in pairwise(members)]
            step, count = gaps[0] if gaps else 0, 1
            if step > 0 and only in (None, step):
                count += sum(1 for _ in takewhile(step.__eq__, gaps))
            batch, members = members[:largest][:count], members[min(count, largest) :]
            (_, left), *_ = batch
            yield Batch(tuple(q for q, _ in batch), left, left + distance, step)


@dataclass(frozen=True)
class Cut:
    """Rows of X, products, and matrices of a stack, of one call.

    Their sums fit the buffer.
    """

    rows: int
    products: int
    matrices: int = 1


_LARGEST_BATCH = 65535  # products of matrices of a call: blocks of a grid in z


def cut_sums(
    m: int, n: int, buffer_bytes: int, stack: int = 1, widened_k: int = 0
) -> Cut:
    """Choose what of a product is made by one call, so that its sums fit.

    Whole stacks first, then whole matrices, then rows in multiples of 256, the tile of
    a tensor-core kernel; one such piece at least. `widened_k`: columns of planes in
    float16, for which there is as much room where more than one matrix fits.
    """
    row_bytes = 4 * align(n)
    widened = widened_bytes(Cut(m, 1), n, widened_k)
    each = max(align(m) * row_bytes, widened)
    fitting = min(_LARGEST_BATCH, buffer_bytes // each)
    if fitting > 0:
        matrices = min(stack, fitting)
        return Cut(m, fitting // matrices, matrices)
    rows = max(256, buffer_bytes // row_bytes // 256 * 256)
    return Cut(min(m, rows), 1)


def choose_widened_k(system: ResidueSystem, k: int, element: Element) -> int:
    """Count the columns of a call's planes in float16, at most; 0 in int8."""
    if element == "int8":
        return 0
    return min(align(k), largest_k([min(system.moduli)], element))


def widened_bytes(cut: Cut, n: int, widened_k: int) -> int:
    """Bytes of the planes of one call in float16."""
    rows = align(cut.rows) + align(n)
    return 2 * cut.products * cut.matrices * rows * widened_k


# cuBLAS and CUDA constants that CuPy does not name.
_CUDA_R_32F, _CUDA_R_16F = 0, 2
_CUDA_R_8I, _CUDA_R_32I = 3, 10
_CUBLAS_COMPUTE_32F, _CUBLAS_COMPUTE_32I = 68, 72
_CUBLAS_GEMM_DEFAULT = -1
_CUBLAS_DEFAULT_MATH, _CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 0, 16
_OP_N, _OP_T = 0, 1
_POINTER_MODE_HOST = 0

# Types of operands, sums and arithmetic; the factors of products and sums; math mode:
# for int8 and for float16.
_INT8 = (
    *(_CUDA_R_8I, _CUDA_R_32I, _CUBLAS_COMPUTE_32I),
    *(np.array([1, 0], np.int32), _CUBLAS_DEFAULT_MATH),
)
_FLOAT16 = (
    *(_CUDA_R_16F, _CUDA_R_32F, _CUBLAS_COMPUTE_32F),
    *(np.array([1, 0], np.float32), _CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
)
_TYPES: dict[int, tuple[Any, ...]] = {1: _INT8, 2: _FLOAT16}


def multiply(x: Array, y: Array, sums: Array) -> None:
    """sums[b] = x[b] y[b]^T by cuBLAS, on tensor cores.

    Of integers in float16 exact as well: no partial sum reaches 2^24, and none is
    rounded to less than float32 on its way. x (batch, m, k) and y (batch, n, k) are
    int8 or float16, sums (batch, m, n) int32 or float32; rows are contiguous, and k and
    the distance of those of x and y multiples of 16 bytes.
    """
    from cupy.cuda import cublas, device

    of_operands, of_sums, arithmetic, factors, mode = _TYPES[x.itemsize]
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
    # The handle is CuPy's: its pointer mode may have been left as "device".
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


_ROWS = 32  # rows of both matrices; tensor cores take multiples of 16
# As long as sums may become: 2^16 * 128^2 = 2^30, and 1040 * 127^2 < 2^24.
_EXTREMES: dict[Element, tuple[int, int, int]] = {
    "int8": (1 << 16, -128, 127),
    "float16": (1040, -127, 127),
}
# (batch, m, n, k): ragged against the tiles of tensor cores, and so long that k may be
# split into parts of different lengths.
_SHAPES = (1, 48, 80, 208), (1, 272, 1040, 4112), (3, 256, 256, 33 * 128)
_Operand = npt.NDArray[np.float64]


def choose_exact(device: Any, preferred: Element) -> Element:
    """Choose the type to multiply: `preferred`, unless only the other one is exact."""
    others = [x for x in _EXTREMES if x != preferred]
    failures = []
    for element in (preferred, *others):
        failure = _find_failure(device, element)
        if failure is None:
            return element
        failures.append(f"{element}: {failure}")
    raise KernelError(
        f"cuBLAS multiplies no integers exactly on this GPU ({'; '.join(failures)})",
        "Install a newer CuPy, or multiply NumPy arrays",
        "no-exact-product",
    )


def _find_failure(device: Any, element: Element) -> str | None:
    """Multiply each pair of operands, and describe the first sums that are wrong."""
    kind = np.int32 if element == "int8" else np.float32
    for x, y in _operands(element):
        expected = x @ y.transpose(0, 2, 1)  # exact: below 2^53
        sums = device.empty(expected.shape, kind)
        try:
            device.multiply(*(device.send(t.astype(element)) for t in (x, y)), sums)
            (found,) = device.fetch([sums])
        except RuntimeError as error:  # what cuBLAS and CUDA raise is one
            return " ".join(str(error).split())
        if wrong := int(np.count_nonzero(found != expected)):
            size = " x ".join(map(str, (*expected.shape, x.shape[2])))
            return f"{wrong} of {expected.size} sums are wrong, of {size} terms"
    return None


def _operands(element: Element) -> Iterator[tuple[_Operand, _Operand]]:
    """Make stacks of rows: of extreme values, and then of random ones."""
    x = _extremes(*_EXTREMES[element])[np.newaxis]
    yield x, np.ascontiguousarray(x[:, :, ::-1])
    rng = np.random.default_rng(0)
    for batch, m, n, k in _SHAPES:
        # Sums of float16 stay below 2^24.
        most = 127 if element == "int8" else min(127, isqrt((2**24 - 1) // k))
        sides = (rng.integers(-most, most + 1, (batch, t, k)) for t in (m, n))
        left, right = (t.astype(np.float64) for t in sides)
        yield left, right


def _extremes(k: int, least: int, most: int) -> _Operand:
    """Make rows whose sums become as large as any, and are odd as well as even.

    All of a kind, or of both in turns; and with ones last, which are lost first.
    """
    rows = np.full((_ROWS, k), float(most))
    rows[1::4] = least
    for row in range(2, _ROWS, 4):
        rows[row, :: row // 2] = least
        rows[row + 1, k - k // row :] = 1
    rows[::8, -1] = 0
    return rows
