"""The CUDA engine: launches the kernels and the int8 products of one tile.

Nothing here waits for the device but `analyse`, what its findings fetch, and
`fingerprint`; see `kept` for tasks.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...moduli import ResidueSystem, ScalingRule
from ...typing import Array, Uplo
from ..defaults import Defaults
from ..family import Family
from ..limits import Shape, TileLimits, Update
from ..statistics import RowStatistics
from . import finish, tuning
from .decode import decode_residues
from .device import open_device
from .encoded import CudaEncoded
from .fill import CudaFill, fill_nonfinite, mark_nonfinite
from .fused_gemm import fits, gemm_fused
from .hopper import LINE, ROW_GROUP
from .int8_gemm import align
from .kept import SharedPlanes
from .launch import (
    LARGEST_STACK,
    Device,
    count_matrices,
    group_grid,
    lies_across,
    listed,
    operand_args,
    stack_stride,
    strip_grid,
)
from .multiply import add_residues
from .quarters import choose_levels
from .residues import multiply_planes
from .rows import CudaRows
from .scripts import Recorder, Scripts, outline_all
from .sources import module_for
from .workspace import (
    available_bytes,
    fit_tiles,
    sums_bytes,
    unasked_bytes,
    working_bytes,
)


class CudaEngine(CudaRows, SharedPlanes, Defaults):
    """The contract on CuPy and cuBLAS; see `twom_dist.kernels.protocol`."""

    name = "cuda"
    family: Family = "cupy"
    writes_parts = False

    def __init__(self, device: Device) -> None:
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
        capability = self.device.capability()
        sums, fused = sums_bytes(capability), tuning.tuning_for(capability).fused
        element = self.device.element()
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
        whole = whole and fits(self.device, system, limits.kb)
        if whole and choose_levels(self.device, system, shape) == 0:
            steady = needed <= unasked_bytes(self.device)
            own = self.gemm_fused
            return TileLimits(*tile, limits.cache_bytes, own, steady)
        return limits

    def fingerprint(self, x: Array) -> int:
        """Sum mixed words, each weighted by its place; waits for the device."""
        slots = tuning.FINGERPRINT_SLOTS
        sums = self.device.filled((slots,), np.uint64)
        if x.size:
            across = lies_across(x)
            blocks, block, span = strip_grid(*x.shape, across)
            last = np.int64(span), np.int32(across), np.int32(slots), sums
            dtype = x.dtype if x.dtype.kind in "fc" else np.float64
            module, args = module_for("fingerprint", dtype), (*operand_args(x), *last)
            self.device.launch(module, "fingerprint", (blocks, 1, 1), block, args)
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
        """Quantise and write the planes, alike for both sides."""
        (*stack, rows, k), count = x.shape, len(system.planes)
        x, padded = listed(x), (align(rows, ROW_GROUP), align(k, LINE))
        matrices = count_matrices(x)
        shape = count, matrices * padded[0], padded[1]
        planes = self.device.empty(shape, np.int8)
        if planes.size:
            grid, block, last = group_grid(*padded, lies_across(x))
            args = (
                *(*operand_args(x), exponents, shifts, np.int32(conjugate)),
                *(planes, *map(np.int64, padded), np.int64(shape[1] * shape[2])),
                *(*last, stack_stride(x)),
            )
            shifted = shifts is not None
            module = module_for("encode", x.dtype, system, shifted=shifted)
            grid = grid[0], matrices, 1
            self.device.launch(module, "encode", grid, block, args)
        return CudaEncoded(rows, k, planes, tuple(range(count)), tuple(stack))

    def multiply(
        self,
        left: CudaEncoded,
        right: CudaEncoded,
        system: ResidueSystem,
        before: Array | None = None,
        *,
        overwrite: bool = False,
        hermitian: bool = False,
        triangle: Uplo = "full",
    ) -> Array:
        """Multiply and reduce in one pass, or by cuBLAS and a second one."""
        m, n = left.rows, right.rows
        # Rows are padded to multiples of 16: no kernel meets a ragged one.
        shape = (system.num_products, *left.stack, m, align(n))
        shape = shape if before is None else before.shape
        if 0 in (m, n, left.k) or 0 in left.stack:
            return self.device.filled(shape, np.int8) if before is None else before
        residues: Array = before if overwrite else self.device.empty(shape, np.int8)
        given = self.device, left, right, system, residues, before
        multiply_planes(*given, hermitian, triangle)
        return residues

    def add_residues(self, x: Array, y: Array, system: ResidueSystem) -> Array:
        """Add bytes, 16 a thread."""
        return add_residues(self.device, x, y, system)

    def find_nonfinite(
        self,
        x: Array,
        y: Array,
        rows: Array,
        columns: Array,
        conjugate: tuple[bool, bool],
    ) -> CudaFill:
        """Mark the elements that a NaN or an Inf reaches."""
        return mark_nonfinite(self.device, x, y, rows, columns, conjugate)

    def apply_nonfinite(
        self, fill: CudaFill, out: Array, alpha: complex, beta: complex, c: Array | None
    ) -> None:
        """Overwrite the marked elements."""
        fill_nonfinite(self.device, fill, out, alpha, beta, c)

    def scale_and_add(
        self,
        x: Array | None,
        alpha: complex,
        beta: complex,
        c: Array | None,
        dtype: Any,
    ) -> Array:
        """Return alpha x + beta c by one kernel."""
        return finish.scale_and_add(self.device, x, alpha, beta, c, dtype)

    def mirror_tile(
        self, tile: Array, *, conjugate: bool, out: Array | None = None
    ) -> Array:
        """Conjugate-transpose, or transpose, by one kernel."""
        return finish.mirror_tile(self.device, tile, conjugate, out)

    def symmetrise_diagonal_tile(
        self, tile: Array, *, conjugate: bool, uplo: Uplo
    ) -> Array:
        """Close a diagonal tile in place."""
        return finish.symmetrise_diagonal_tile(self.device, tile, conjugate, uplo)

    def decode(
        self,
        residues: Array,
        rows: Array,
        columns: Array,
        system: ResidueSystem,
        dtype: Any,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        c: Array | None = None,
        triangle: Uplo = "full",
        components: int = 1,
        out: Array | None = None,
    ) -> Array:
        """Reconstruct the tile by one kernel."""
        if out is None:
            front = () if components == 1 else (components,)
            out = self.device.empty((*front, *rows.shape, columns.shape[-1]), dtype)
        if out.size:
            c = None if c is None else listed(c)
            by_matrix = residues.reshape(len(residues), -1, *residues.shape[-2:])
            tall = out.reshape(
                *((components,) if components > 1 else ()), *by_matrix.shape[1:3], -1
            )
            args = (self.device, by_matrix, rows, columns, system, tall)
            decode_residues(*args, alpha, beta, c, triangle)
        return out

    def gemm_fused(
        self,
        x: Array,
        y: Array,
        conjugate: tuple[bool, bool],
        system: ResidueSystem,
        rule: ScalingRule,
        dtype: Any,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        c: Array | None = None,
        twin: tuple[int, ...] | None = None,
        uplo: Uplo | None = None,
        hermitian: bool = False,
        out: Array | None = None,
        shifts: Sequence[Array] | None = None,
        known: Sequence[RowStatistics] | None = None,
    ) -> Array:
        """Compute a product in four launches or three, and two allocations."""
        e, f = shifts or (None, None)
        given = {"x": x, "y": y, "c": c, "out": out, "e": e, "f": f}
        options = conjugate, system, rule, dtype, alpha, beta
        more = twin, uplo, hermitian
        outlines = outline_all(given.values())
        key = self.variant(), outlines, options, more
        script = self.scripts.get(key)
        if script is not None:
            return script.run(self.device, given)
        recorder = Recorder(self.device, given)
        found = gemm_fused(recorder, x, y, *options, c, *more, out, shifts)
        self.scripts.keep(key, recorder.script)
        return found


def make_engine() -> CudaEngine:
    """Make the engine, or say what is missing on this machine."""
    return CudaEngine(open_device())
