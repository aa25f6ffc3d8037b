"""The products of tensor cores, checked where a kind of chip is first used.

cuBLAS may refuse int8 on a new chip, and sums of float16 need not keep the 24 bits that
they keep on Hopper: some chips align products before they add.
"""

import numpy as np
import numpy.typing as npt

from ...errors import KernelError
from .launch import Device
from .tuning import Element

# Rows of both matrices; tensor cores take multiples of 16.
_ROWS = 32
# As long as sums may become: 2^16 * 128^2 = 2^30, and 1040 * 127^2 < 2^24.
_EXTREMES: dict[Element, tuple[int, int, int]] = {
    "int8": (1 << 16, -128, 127),
    "float16": (1040, -127, 127),
}


def choose_exact(device: Device, preferred: Element) -> Element:
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


def _find_failure(device: Device, element: Element) -> str | None:
    """Multiply extreme values, and describe the wrong sums."""
    x = _extremes(*_EXTREMES[element])
    y = x[:, ::-1]
    given = [device.send(np.ascontiguousarray(t[np.newaxis], element)) for t in (x, y)]
    kind = np.int32 if element == "int8" else np.float32
    sums = device.empty((1, _ROWS, _ROWS), kind)
    multiply = getattr(device, f"multiply_{element}")
    try:
        multiply(*given, sums)
        (found,) = device.fetch([sums])
    except RuntimeError as error:  # what cuBLAS and CUDA raise is one
        return " ".join(str(error).split())
    wrong = int(np.count_nonzero(found[0] != x @ y.T))  # exact: below 2^53
    return f"{wrong} of {_ROWS**2} sums are wrong" if wrong else None


def _extremes(k: int, least: int, most: int) -> npt.NDArray[np.float64]:
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
