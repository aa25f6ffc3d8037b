"""The products of tensor cores, checked where a kind of chip is first used.

cuBLAS may refuse int8 on a new chip, and sums of float16 need not keep the 24 bits that
they keep on Hopper: some chips align products before they add. And the release notes of
cuBLAS tell of int8 products that were wrong for some shapes only: in 13.0.0, and, up to
13.7, where k is split between blocks.
"""

from collections.abc import Iterator
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import KernelError
from .tuning import Element

# Rows of both matrices; tensor cores take multiples of 16.
_ROWS = 32
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
    """Choose the type to multiply: `preferred`, unless only the other one is exact.

    Raises
    ------
    KernelError
        If neither is.
    """
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
    multiply = getattr(device, f"multiply_{element}")
    for x, y in _operands(element):
        expected = x @ y.transpose(0, 2, 1)  # exact: below 2^53
        sums = device.empty(expected.shape, kind)
        try:
            multiply(*(device.send(t.astype(element)) for t in (x, y)), sums)
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
