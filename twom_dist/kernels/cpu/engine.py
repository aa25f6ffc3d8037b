"""The CPU engine: launches the Numba kernels over threads."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from ..family import Family
from ..finish import scale_and_add
from ..limits import Shape, TileLimits, Update, host_limits
from ..nonfinite import apply_nonfinite, find_nonfinite
from ..protocol import Defaults
from .analysis.analysis import analyse, error_sums
from .analysis.norms import choose_exponents, finite_exponents
from .analysis.octaves import multiply_octaves, octaves
from .analysis.rows import measure
from .buffers import empty
from .decode.decode import decode_tile
from .decode.mirrors import fill_mirrors
from .decode.samples import decode_samples
from .decode.triangles import close_tile, mirror_tile
from .encode.encode import encode_rows
from .encode.samples import encode_samples
from .fused_gemm import gemm_fused
from .jit import announce_compilation, kernel
from .layout import read_only, straighten
from .planes import GROUP, SIDES, CpuEncoded
from .products.modular import add_residues
from .products.multiply import may_take_quarters, multiply_planes
from .threads import run_pieces, run_task
from .tuning import QUARTERED, SMALLEST_STRIP, STACK_BYTES, STRIP_BYTES, UPDATE_TILE


@kernel
def _sum_mixed(words):  # type: ignore[no-untyped-def]
    """Sum t ^ (t >> 29), t = (w + 1) odd_i, modulo 2^64 over 32-bit words w.

    The odd weights tell permutations apart and the shift brings high bits, signs
    among them, down to where sums of changes do not cancel.
    """
    total = np.uint64(0)
    for i in range(words.size):
        weight = np.uint64(0x9E3779B97F4A7C15) * np.uint64(2 * i + 1)
        mixed = (np.uint64(words[i]) + np.uint64(1)) * weight
        total += mixed ^ (mixed >> np.uint64(29))
    return total


class CpuEngine(Defaults):
    """The contract on Numba's kernels; see `twom_dist.kernels.protocol`."""

    name = "cpu"
    family: Family = "numpy"
    measure, analyse = staticmethod(measure), analyse
    error_sums, octaves = staticmethod(error_sums), staticmethod(octaves)
    multiply_octaves = staticmethod(multiply_octaves)
    choose_exponents = staticmethod(choose_exponents)
    add_residues = staticmethod(add_residues)
    find_nonfinite = staticmethod(find_nonfinite)
    apply_nonfinite = staticmethod(apply_nonfinite)
    scale_and_add = staticmethod(scale_and_add)
    mirror_tile = staticmethod(mirror_tile)
    symmetrise_diagonal_tile = staticmethod(close_tile)
    task = staticmethod(run_task)

    def tile_limits(
        self, system: ResidueSystem, shape: Shape, update: Update | None = None
    ) -> TileLimits:
        """Cut by the setting largest-tile, products into strips of rows besides.

        Diagonal tiles of updates cost half: one side of them is multiplied.
        """
        limits, (m, n, k) = host_limits(shape, update, UPDATE_TILE), shape
        mb, nb, kb, cache_bytes = limits.mb, limits.nb, limits.kb, limits.cache_bytes
        # A sample takes an eighth of the bytes of a number.
        kb *= 8 if system.wraps else 1
        if update is None:
            row_bytes = system.plane_bytes * min(k, nb)
            row_bytes += system.entry_bytes * min(n, nb)
            quarters = may_take_quarters((m, min(n, nb), min(k, kb)))
            quarters = quarters and not system.wraps
            strip = STRIP_BYTES * (QUARTERED if quarters else 1)
            mb = min(mb, max(SMALLEST_STRIP, strip // max(1, row_bytes)))
        two = update is not None and update.two
        # What computes a product of one tile.
        alone = not (two or system.wraps or 0 in shape)
        alone = alone and m <= mb and n <= nb and k <= kb
        fused = partial(gemm_fused, self) if alone else None
        return TileLimits(mb, nb, kb, cache_bytes, fused, steady=True)

    def run_stack(
        self,
        compute: Callable[[slice], object],
        count: int,
        system: ResidueSystem,
        shape: Shape,
    ) -> None:
        """Cut so that planes and residues find the pages of those before."""
        m, n, k = shape
        nbytes = system.plane_bytes * (m + n) * k + system.entry_bytes * m * n
        run_pieces(compute, count, *(t // max(1, nbytes) for t in STACK_BYTES))

    def fingerprint(self, x: Array) -> int:
        source, _ = straighten(x)
        content = source.reshape(-1).view(np.uint8)
        if content.size % 4:
            content = np.append(content, np.zeros(-content.size % 4, np.uint8))
        return int(_sum_mixed(read_only(content.view(np.uint32))))

    def encode(
        self,
        x: Array,
        exponents: Array,
        system: ResidueSystem,
        *,
        conjugate: bool = False,
        shifts: Array | None = None,
    ) -> CpuEncoded:
        if system.wraps:
            return encode_samples(x, system, conjugate)
        rows = x, exponents.reshape(-1), conjugate, shifts, None
        return encode_rows([rows], system)[0]

    def multiply(
        self,
        left: CpuEncoded,
        right: CpuEncoded,
        system: ResidueSystem,
        before: Array | None = None,
        *,
        overwrite: bool = False,
        hermitian: bool = False,
        triangle: Uplo = "full",
    ) -> Array:
        """Multiply and reduce; rows of residues are padded to whole groups."""
        m, n, k = left.rows, right.rows, left.k
        shape = system.num_residues, *left.stack, m, -(-n // GROUP) * GROUP
        dtype = system.residue_dtype
        if 0 in (m, n, k) or 0 in left.stack:
            return np.zeros(shape, dtype) if before is None else before
        shape = shape if before is None else before.shape
        residues: Array = before if overwrite else empty(shape, dtype)
        shape = len(residues), prod(left.stack), *residues.shape[-2:]
        every = residues.reshape(shape)
        old = None if before is None else read_only(before).reshape(shape)
        multiply_planes(left, right, system, every, old, hermitian, triangle)
        if hermitian:
            fill_mirrors(system, every, SIDES[triangle])
        return residues

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
        if out is None:
            front = () if components == 1 else (components,)
            out = np.empty((*front, *rows.shape, columns.shape[-1]), dtype)
        if system.wraps:
            decode_samples(residues, system, alpha, beta, c, out)
        elif out.size:
            both = np.concatenate((rows.reshape(-1), columns.reshape(-1)))
            e, _ = finite_exponents(both)
            finite = e[: rows.size], e[rows.size :]
            given = residues, *finite, system, alpha, beta, c, SIDES[triangle]
            decode_tile(*given, components, out)
        return out


def make_engine() -> CpuEngine:
    """Make the engine, which says so when it has to compile."""
    announce_compilation()
    return CpuEngine()
