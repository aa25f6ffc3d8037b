"""products_tile.py on the host: its own text, block by block, on NumPy arrays.

Arguments are those of a launch, decoded by what NVIDIA documents of cutile_python_v2:
an array is an address, its sizes and its strides, and constants are left out.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from struct import unpack_from
from types import SimpleNamespace
from unittest import mock

import numpy as np

from tests.support.cuda import tile_ir
from tests.support.modules import with_modules

_LARGEST_GRID = (1 << 24) - 1


@dataclass
class Array:
    """An array of a kernel, and what was promised of it."""

    dtype: type
    ndim: int
    index_dtype: type
    stride_lower_bound_incl: int
    alias_groups: tuple
    may_alias_internally: bool
    stride_constant: tuple
    stride_divisible_by: tuple
    base_addr_divisible_by: int

    def decode(self, take):
        """View memory, and see that promises are kept."""
        address = take("Q", 8)
        sizes = [take("i", 4) for _ in range(self.ndim)]
        strides = [take("i", 4) for _ in range(self.ndim)]
        assert self.index_dtype is np.int32
        assert address % self.base_addr_divisible_by == 0
        assert min(sizes) > 0
        assert min(strides) >= self.stride_lower_bound_incl
        for x, step, constant in zip(
            strides, self.stride_divisible_by, self.stride_constant, strict=True
        ):
            assert x % step == 0
            assert constant in (None, x)
        # An axis of one has any stride.
        steps = [x * (n > 1) for x, n in zip(strides, sizes, strict=True)]
        count = 1 + sum((n - 1) * x for n, x in zip(sizes, steps, strict=True))
        size = np.dtype(self.dtype).itemsize
        memory = (ctypes.c_char * (count * size)).from_address(address)
        flat = np.frombuffer(memory, self.dtype)
        steps = [x * size for x in steps]
        return np.lib.stride_tricks.as_strided(flat, sizes, steps)


@dataclass
class Scalar:
    dtype: type

    def decode(self, take):
        assert self.dtype is np.int32
        return take("i", 4)


def _load(array, index, shape, padding_mode=None):
    """Load a tile; what lies outside is unknown unless it is zero."""
    out = np.full(shape, 0 if padding_mode == "zero" else 0x5A, array.dtype)
    inner, own = _cut(array, index, shape)
    out[inner] = array[own]
    return out


def _store(array, index, tile):
    inner, own = _cut(array, index, tile.shape)
    array[own] = tile[inner]


def _cut(array, index, shape):
    inner, own = [], []
    for i, n, size in zip(index, shape, array.shape, strict=True):
        assert 0 <= i * n < size
        end = min(i * n + n, size)
        own.append(slice(i * n, end))
        inner.append(slice(0, end - i * n))
    return tuple(inner), tuple(own)


def _round_and_view(x, dtype):
    return (x.astype(np.float32) if x.dtype == np.float64 else x).view(dtype)


def _mma(x, y, acc):
    """Multiply exactly; int32 holds what was, and is, added."""
    kinds = {np.int8: np.int32, np.float16: np.float32}
    assert x.dtype == y.dtype
    assert kinds[x.dtype.type] == acc.dtype
    assert x.shape[1] <= 1 << 10  # sums below 2^24, which float32 holds
    acc += (x.astype(np.float32) @ y.astype(np.float32)).astype(acc.dtype)
    assert abs(acc).max() <= (1 << 30 if x.dtype == np.int8 else (1 << 24) - 1)
    return acc


class Tiles:
    """cuda.tile, as far as the kernel asks for it, and what `export` describes."""

    def __init__(self):
        self.block = self.made = None
        names = "int8", "int32", "float16", "float32", "bool"
        types = {name: np.dtype(name).type for name in names}
        tile = types | {
            "Constant": {int: int, bool: bool},
            "PaddingMode": SimpleNamespace(ZERO="zero"),
            "bid": lambda axis: (self.block, 0, 0)[axis],
            "cdiv": lambda x, y: -(-x // y),
            "zeros": np.zeros,
            "load": _load,
            "store": _store,
            "mma": _mma,
            "reshape": np.reshape,
            "transpose": np.transpose,
            "astype": lambda x, dtype: x.astype(dtype),
            "bitcast": lambda x, dtype: x.view(dtype),
            "kernel": lambda function, **hints: (function, hints),
        }
        compilation = {
            "ArrayConstraint": lambda kind, axes, **given: Array(kind, axes, **given),
            "ScalarConstraint": Scalar,
            "ConstantConstraint": int,
            "CallingConvention": SimpleNamespace(cutile_python_v2=lambda: "v2"),
            "KernelSignature": lambda *given: given,
            "export_kernel": self._export,
        }
        names = "cuda", "cuda.tile", "cuda.tile.compilation"
        tile["compilation"] = SimpleNamespace(**compilation)
        given = {}, tile, compilation
        with with_modules(**dict(zip(names, given, strict=True))):
            self.kernels = {x: self._describe(x) for x in tile_ir.MODULES}

    def _export(self, kernel, signatures, out, **given):
        self.made = kernel, signatures, given

    def _describe(self, module):
        tile_ir.export(module)
        (kernel, hints), [(given, convention, name)], how = self.made
        assert (convention, name) == ("v2", kernel.__name__)
        assert hints == {"num_ctas": 2 if given[-2] == 256 else None}
        assert how["bytecode_version"] == tile_ir.VERSION
        return kernel, given

    def locate_square(self, *given):
        kernel, _ = self.kernels[tile_ir.MODULES[0]]
        return kernel.__globals__["locate_square"](*given)

    def reduce(self, sums, table, old, fused):
        """Reduce 256 x 256 sums that are made up, with old residues or None.

        `fused`: whether a product is rounded before it is added to; if not, by doubles,
        whose errors are less than what decides.
        """
        kernel, _ = self.kernels[tile_ir.MODULES[0]]
        side, own, wide = 256, kernel.__globals__["ct"], {np.float32: np.float64}
        out, planes = np.zeros((1, 1, side, side), np.int8), np.zeros((1, 1, side, 1))
        changes = {"mma": lambda x, y, acc: sums}
        if fused:
            changes["astype"] = lambda x, kind: x.astype(wide.get(kind, kind))
            changes["bitcast"] = _round_and_view
        self.block = 0
        given = planes, planes, np.zeros(4, np.int32), table
        with mock.patch.multiple(own, **changes):
            adds = old is not None
            numbers = adds, 0, 1, 1, 1, 0
            kernel(*given, out + (old or 0), out, *numbers, side, False)
        return out[0, 0]

    def launch(self, module, grid, block, data, offsets, shared):
        kernel, constraints = self.kernels[module]
        # As NVIDIA's own launches are: the driver knows how many threads there are.
        assert (block, shared, grid[1:]) == ((1, 1, 1), 0, (1, 1))
        assert 0 < grid[0] <= _LARGEST_GRID
        places = iter(offsets)

        def take(code, size):
            at = next(places)
            assert at % size == 0
            return unpack_from(f"<{code}", data, at)[0]

        given = [x if isinstance(x, int) else x.decode(take) for x in constraints]
        assert next(places, None) is None
        _check_aliases(constraints, given)
        for self.block in range(grid[0]):
            kernel(*given)


def _check_aliases(constraints, given):
    """Arrays without a group in common share no memory with one that is written."""
    *others, residues = [
        (own, x) for own, x in zip(constraints, given, strict=True) if np.ndim(x)
    ]
    for own, x in others:
        if not {*own.alias_groups} & {*residues[0].alias_groups}:
            assert not np.may_share_memory(x, residues[1])


@cache
def tiles():
    return Tiles()
