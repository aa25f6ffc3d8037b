"""The CUDA engine: launches the kernels and the int8 products of one tile.

Only `analyse`, methods of its result, and `fingerprint` wait for the device; see
`planes` for tasks.
"""

from collections.abc import Callable
from functools import partial
from math import inf

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array
from .. import chip_files
from ..family import Family
from ..limits import Shape, TileLimits, Update
from ..protocol import Defaults
from . import tuning
from .analysis import CudaAnalyses
from .cublas import align
from .decode import CudaDecode
from .device import CudaDevice, open_device
from .fused_gemm import CudaFusedGemm, fits
from .hopper import LINE, ROW_GROUP
from .launch import (
    BLOCK,
    LARGEST_STACK,
    LINE_BLOCK,
    as_stack,
    count_matrices,
    lies_across,
    operand,
    stack_stride,
    strides,
    strip_grid,
)
from .multiply import CudaResidues
from .planes import CudaEncoded, SharedPlanes
from .quarters import takes_quarters
from .rows import CudaRows
from .samples import encode_samples
from .scripts import Scripts
from .sources import module_for
from .tile_check import explain_no_tiles
from .workspace import (
    available_bytes,
    fit_tiles,
    sums_bytes,
    unasked_bytes,
    working_bytes,
)


class CudaEngine(
    CudaAnalyses,
    CudaRows,
    CudaResidues,
    CudaDecode,
    CudaFusedGemm,
    SharedPlanes,
    Defaults,
):
    """The contract on CuPy and cuBLAS; see `twom_dist.kernels.protocol`."""

    name = "cuda"
    family: Family = "cupy"
    writes_parts = False
    takes_places = True

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.scripts = Scripts()

    def run_stack(
        self,
        compute: Callable[[slice], object],
        count: int,
        system: ResidueSystem,
        shape: Shape,
    ) -> None:
        """Cut by the setting workspace-bytes, and by the largest grid."""
        each = working_bytes(system, shape, 0)
        fitting = available_bytes(self.device, count * each) // each
        step = max(1, min(LARGEST_STACK, fitting))
        for lo in range(0, count, step):
            compute(slice(lo, min(lo + step, count)))

    def tile_limits(
        self, system: ResidueSystem, shape: Shape, update: Update | None = None
    ) -> TileLimits:
        """Cut by the setting workspace-bytes."""
        number, tuned = self.variant()
        fused = system.wraps or tuned.fuses(shape)
        sums = 0 if fused else sums_bytes(self.device.capability(number))
        element = "int8" if fused else self.device.element()
        two = update is not None and update.two
        if update is not None and fused and not two:
            update = Update(halves=True, two=False)  # by leaving out squares
        needed = working_bytes(system, shape, sums, update, element)
        limit = available_bytes(self.device, needed)
        limits = fit_tiles(system, shape, limit, sums, update, element)
        tile = limits.mb, limits.nb, limits.kb
        # Planes stay until the result is made, at most 16 bytes an entry.
        whole = not two and tile == shape
        whole = whole and needed + 16 * limits.mb * limits.nb <= limit
        rows = limits.mb + (limits.nb if update is None else 0)
        whole = whole and fits(self.device, system, rows, limits.kb)
        if whole:
            steady = needed <= unasked_bytes(self.device)
            quarters = takes_quarters(self.device, system, shape)
            own = partial(self.gemm_fused, (number, tuned, fused, quarters))
            unasked = min(limit, unasked_bytes(self.device))
            together = min(LARGEST_STACK, unasked // working_bytes(system, shape, 0))
            return TileLimits(*tile, limits.cache_bytes, own, steady, together)
        return limits

    def fingerprint(self, x: Array) -> int:
        """Sum mixed words, each weighted by its place; waits for the device."""
        slots = tuning.FINGERPRINT_SLOTS
        sums = self.device.full((slots,), np.uint64)
        if x.size:
            blocks, span = strip_grid(*x.shape, lies_across(x))
            dtype = x.dtype if x.dtype.kind in "fc" else np.float64
            grid, args = (blocks, 1, 1), (*operand(x, span), slots, sums)
            module = module_for("fingerprint", dtype)
            self.device.launch(module, "fingerprint", grid, BLOCK, args)
        return int(sums.sum())

    def encode(
        self,
        x: Array,
        exponents: Array,
        system: ResidueSystem,
        *,
        conjugate: bool = False,
        shifts: Array | None = None,
    ) -> CudaEncoded:
        if system.wraps:
            return encode_samples(self.device, x, system, conjugate)
        (*stack, rows, k), count = x.shape, len(system.planes)
        x, padded = as_stack(x), (align(rows, ROW_GROUP), align(k, LINE))
        matrices = count_matrices(x)
        shape = count, matrices * padded[0], padded[1]
        planes = self.device.empty(shape, np.int8)
        if planes.size:
            # See ``Group`` in elements.cuh.
            own = tuning.ROWS_ACROSS if lies_across(x) else tuning.ROWS_ALONG
            blocks = -(-padded[0] // own) * -(-padded[1] // (4 * 256 // own))
            args = (
                *(x, rows, k, *strides(x), exponents, shifts, conjugate, planes),
                *(*padded, shape[1] * shape[2], lies_across(x), own, stack_stride(x)),
            )
            shifted = shifts is not None
            module = module_for("encode", x.dtype, system, shifted=shifted)
            grid = blocks, matrices, 1
            self.device.launch(module, "encode", grid, LINE_BLOCK, args)
        return CudaEncoded(rows, k, planes, tuple(range(count)), tuple(stack))


def make_engine() -> CudaEngine:
    """Make the engine, or say what is missing on this machine."""
    device = open_device()
    take_measured(device=device)
    return CudaEngine(device)


def take_measured(size: float | None = None, device: CudaDevice | None = None) -> bool:
    """Have cuBLAS multiply from a `mean_side` on, or from that of the chip's file.

    On devices with the capability of this one, or of the current one; returns whether
    there is a choice. Where Tile IR fails, cuBLAS multiplies all.
    """
    device = device or CudaDevice()
    if explain_no_tiles(device):
        tuning.set_cublas(device.capability(), 0)
        return False
    if size is None:
        told = chip_files.read(device.name()) or {"n": {}}
        size = told["n"].get(chip_files.PRODUCTS, inf)
    return tuning.set_cublas(device.capability(), size)
