"""One call for each kernel, from NumPy arrays to NumPy arrays.

Outputs lie between guards: a thread that writes outside is found out.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from tests.support.cuda.host import HostKernels
from twom_dist.kernels.cuda import tables
from twom_dist.kernels.cuda.at_once import rows_of_block
from twom_dist.kernels.cuda.launch import group_grid, square_grid, triangle_arg
from twom_dist.kernels.cuda.sources import module_for
from twom_dist.moduli import ZERO_ROW, Mirror, ResidueSystem, ScalingRule
from twom_dist.typing import Uplo

WARP = (32, 8, 1)
LINE = (256, 1, 1)
# What stands where a result that nobody wrote would be.
UNTOUCHED = 77
_GUARD = 256
i32, i64 = np.int32, np.int64


def ceil(x: int, unit: int) -> int:
    return -(-x // unit)


@contextmanager
def guarded(shape: tuple[int, ...], dtype: Any, offset: int = 0) -> Iterator[Any]:
    """Yield an array of noise whose surroundings must stay what they are.

    `offset`: its distance in bytes from an address that 64 divides.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = np.random.default_rng(size).integers(
        0, 256, size + 3 * _GUARD, dtype=np.uint8
    )
    start = _GUARD + -whole.ctypes.data % 64 + offset
    before = whole.copy()
    yield whole[start : start + size].view(dtype).reshape(shape)
    before[start : start + size] = whole[start : start + size]
    assert (whole == before).all(), "a thread wrote outside its array"


def strides_of(x: np.ndarray) -> tuple[np.int64, np.int64]:
    """Strides in elements."""
    row, k = (i64(s // x.itemsize) for s in x.strides)
    return row, k


def operand(x: np.ndarray) -> tuple[Any, ...]:
    """The arguments with which every pass over an operand begins."""
    return x, i64(x.shape[0]), i64(x.shape[1]), *strides_of(x)


def strips(x: np.ndarray, across: bool, span: int) -> tuple[int, tuple[Any, ...]]:
    """Blocks of a reduction, and the operand that it takes."""
    blocks = ceil(x.shape[0], 32 if across else 8) * ceil(x.shape[1], span)
    return blocks, (*operand(x), i64(span), i32(across), i64(0))


ABSENT = (None, *[i64(0)] * 4, i64(1), i32(0), i64(0))


class Calls:
    """The kernels of one host library, by stage."""

    def __init__(self, kernels: HostKernels) -> None:
        self.kernels = kernels

    def largest_exponents(
        self, x: np.ndarray, across: bool = False, span: int = 64
    ) -> np.ndarray:
        module, rows = module_for("norms", x.dtype), len(x)
        blocks, args = strips(x, across, span)
        with guarded((rows,), i32) as out, guarded((rows,), i64) as sums:
            out[:] = ZERO_ROW
            args = (*args, *ABSENT, None, None, out, None, i32(1), sums, None)
            if blocks > 0:
                grid = blocks, 1, 1
                self.kernels.launch(module, "largest_exponents", grid, WARP, args)
                assert not sums.any()
        return out

    def row_sums(
        self,
        x: np.ndarray,
        largest: np.ndarray,
        norm_bits: int,
        across: bool = False,
        span: int = 64,
        kinds: int = 2,
    ) -> np.ndarray:
        module, rows = module_for("norms", x.dtype), len(x)
        blocks, args = strips(x, across, span)
        with guarded((kinds, rows), i64) as sums:
            sums[:] = 0
            args += (*ABSENT, i64(1), i64(1), None, None, largest, None)
            args += (i32(norm_bits), i32(kinds))
            args += (sums, None, None, None)
            if blocks > 0:
                grid = blocks, 1, 1
                self.kernels.launch(module, "sums_and_extremes", grid, WARP, args)
        return sums

    def square_sums(self, *args: Any, **options: Any) -> np.ndarray:
        return self.row_sums(*args, **options, kinds=1)[0]

    def encode(
        self,
        x: np.ndarray,
        exponents: np.ndarray,
        system: ResidueSystem,
        *,
        shifts: np.ndarray | None = None,
        conjugate: bool = False,
        across: bool = False,
        pad_rows: int = 0,
    ) -> np.ndarray:
        """Planes with their padding: (planes, rows + pad_rows, k_padded)."""
        rows, k = x.shape
        shape = (len(system.planes), rows + pad_rows, 128 * ceil(k, 128))
        grid, block, last = group_grid(*shape[1:], across)
        with guarded(shape, np.int8) as out:
            args = (
                *operand(x),
                *(exponents, shifts, i32(conjugate), out),
                *(i64(shape[1]), i64(shape[2]), i64(shape[1] * shape[2])),
                *(*last, i64(0)),
            )
            shifted = shifts is not None
            module = module_for("encode", x.dtype, system, shifted=shifted)
            self.kernels.launch(module, "encode", grid, block, args)
        return out

    def scale_and_encode(
        self,
        operands: Sequence[tuple[np.ndarray, bool]],
        system: ResidueSystem,
        rule: ScalingRule,
        limit: int = 227 << 10,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Exponents and planes, padded, of one operand or two and their conjugates.

        `limit`: bytes of shared memory that a block can have.
        """
        k, shared = operands[0][0].shape[1], 0
        k_padded, counts, args, out = 128 * ceil(k, 128), [], [], []
        with ExitStack() as stack:
            for x, conjugate in operands:
                across = abs(x.strides[0]) < abs(x.strides[1])
                own, kept = rows_of_block(across, k_padded, x.itemsize, limit)
                shared, rows = max(shared, kept), 64 * ceil(len(x), 64)
                shape = len(system.planes), rows, k_padded
                planes = stack.enter_context(guarded(shape, np.int8))
                exponents = stack.enter_context(guarded((len(x),), i32))
                counts.append(rows // own)
                args += [x, None, i64(len(x)), *strides_of(x)]
                args += [i32(conjugate), i32(across)]
                args += [i32(own), i64(rows * k_padded), planes, exponents]
                out.append((exponents, planes))
            if len(operands) == 1:
                args += [None, None, *[i64(0)] * 3, *[i32(0)] * 3, i64(0), None, None]
            args += [np.uint32(counts[0]), i64(k), i64(k_padded), i32(rule.power)]
            args += [np.uint64(rule.leading), i32(rule.norm_bits), i64(0), i64(0)]
            module = module_for("scale_and_encode", operands[0][0].dtype, system)
            grid = (sum(counts), 1, 1)
            self.kernels.launch(module, "scale_and_encode", grid, LINE, args, shared)
        return out

    def requantise(
        self,
        sums: np.ndarray,
        system: ResidueSystem,
        residues: np.ndarray,
        products: np.ndarray | None = None,
        old: np.ndarray | None = None,
        blocks: int = 1,
        pad: int = 0,
    ) -> None:
        """sums[z, i, j] into residues[products[z], i, j], whose rows get their zeros.

        Sums are int32 or float32. `old`: what is added, perhaps `residues` itself;
        `pad`: more columns of the sums than residues have.
        """
        batch, m, n = sums.shape
        width = 16 * ceil(n, 16)
        with (
            guarded((batch, m, width + pad), sums.dtype) as wide,
            guarded((len(residues), m, width), np.int8) as padded,
        ):
            wide[:, :, n:], wide[:, :, :n] = 0, sums
            padded[:, :, n:], padded[:, :, :n] = 0, residues
            before = padded
            if old is not None and old is not residues:
                before = np.zeros_like(padded)
                before[:, :, :n] = old
                before.flags.writeable = False
            args = (
                *(wide.view(i32), i64(width + pad), i64(m * (width + pad))),
                *(None if old is None else before, padded),
                *(i64(width), i64(m * width), i64(m)),
                *(tables.requantise_table(system), products),
                *(i32(sums.dtype == np.float32), i32(1), i64(0)),
            )
            grid = (ceil(width, 128), blocks, batch)
            module = module_for("requantise")
            self.kernels.launch(module, "requantise", grid, WARP, args)
            assert not padded[:, :, n:].any()
            residues[...] = padded[:, :, :n]

    def widen(self, planes: np.ndarray, blocks: int = 1) -> np.ndarray:
        """Widen planes (count, rows, k) to float16; 16 divides k and their strides."""
        count, rows, k = planes.shape
        with guarded(planes.shape, np.float16) as out:
            strides = map(i64, planes.strides[:2])
            args = planes, *strides, out, i64(rows), i64(k)
            grid = (ceil(k, 512), blocks, count)
            self.kernels.launch(module_for("requantise"), "widen", grid, WARP, args)
        return out

    def combine(
        self,
        r: np.ndarray,
        s: np.ndarray | None,
        weights: tuple[int, int, int],
        p: int,
        pad: int = 0,
        triangle: Uplo = "full",
    ) -> np.ndarray:
        """`pad`: more zeros at the ends of rows than it takes."""
        n, width = len(r), 16 * ceil(len(r), 16) + pad
        straight, transposed, other_weight = weights
        mirror = Mirror(1, straight, transposed, None if s is None else 0, other_weight)
        table = np.array([tables.mirror_entry(2, mirror, p)], np.uint32)
        with guarded((3, n, width), np.int8) as residues:
            residues[:, :, n:] = 0
            residues[:, :, :n] = (r if s is None else s), r, np.full((n, n), UNTOUCHED)
            args = residues, i64(n), i64(width), table, triangle_arg(triangle)
            grid = square_grid(ceil(n, 4), ceil(n, 4))
            self.kernels.launch(module_for("combine"), "combine", *grid, args)
            assert (residues[1, :, :n] == r).all()
            assert not residues[:, :, n:].any()
        return residues[2, :, :n]

    def decode(
        self,
        residues: np.ndarray,
        rows: np.ndarray,
        columns: np.ndarray,
        system: ResidueSystem,
        dtype: Any,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        c: np.ndarray | None = None,
        words: int = 1,
        pad: int = 0,
        blocks: int = 1,
    ) -> np.ndarray:
        """`pad`: elements between the rows of the output. By both kinds of digits."""
        count, m, n = residues.shape
        with guarded((count, m, 16 * ceil(n, 16)), np.int8) as padded:
            padded[:, :, :n] = residues
        scalars = [
            t
            for factor in (complex(alpha), complex(beta))
            for t in (
                i32(tables.scalar_mode(factor)),
                np.float64(factor.real),
                np.float64(factor.imag),
            )
        ]
        c_strides = (i64(0), i64(0)) if c is None else strides_of(c)
        grid = (ceil(n, 32 * tables.decode_elements(system)), blocks, 1)
        found = []
        for integer in (False, True):
            module = module_for("decode", dtype, system, words, integer=integer)
            with guarded((words * m, n + pad), dtype) as out:
                before = out.copy()
                args = (
                    *(padded, *map(i64, padded.strides[1::-1])),
                    *(i64(m), i64(n), rows, columns),
                    *(*scalars, c, *c_strides, out, i64(n + pad), i32(0), i64(0)),
                )
                self.kernels.launch(module, "decode", grid, WARP, args)
            assert before[:, n:].tobytes() == out[:, n:].tobytes()
            found.append(np.ascontiguousarray(out[:, :n]))
        decoded, of_integers = found
        assert decoded.tobytes() == of_integers.tobytes()
        return decoded if words == 1 else decoded.reshape(words, m, n)

    def fingerprint(self, x: np.ndarray, across: bool = False, span: int = 64) -> int:
        blocks, args = strips(x, across, span)
        grid = blocks, 1, 1
        with guarded((16,), np.uint64) as sums:
            sums[:] = 0
            args = (*args[:-1], i32(16), sums)
            module = module_for("fingerprint", x.dtype)
            self.kernels.launch(module, "fingerprint", grid, WARP, args)
        return int(sums.sum(dtype=np.uint64))
