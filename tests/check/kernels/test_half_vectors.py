"""The microkernel on CPUs with AVX-VNNI alone: half of the vectors, and the same sums.

On others by plain instructions; what the CPUs would run is read from their text.
"""

import re

import numpy as np
import pytest
from llvmlite import binding

from tests.support.assembly import assemble, find_loops
from twom_dist.kernels.cpu import units
from twom_dist.kernels.cpu.compiled import kernel
from twom_dist.kernels.cpu.encoded import as_groups
from twom_dist.kernels.cpu.products import microkernel
from twom_dist.kernels.cpu.products.microkernel import GROUP, ROWS, WIDEST, Writer
from twom_dist.kernels.cpu.products.reduction import reduction_table
from twom_dist.moduli import residue_system

KERNELS = (
    microkernel.multiply_one,
    microkernel.multiply_two,
    microkernel.multiply_three,
)
# LLVM 15, which the oldest llvmlite has, aborts at a CPU that it does not know.
CPUS = ("alderlake", "gracemont")[: 2 if binding.llvm_version_info > (16,) else 1]


@kernel
def run_half(width, x, y, y_stride, steps, starts, out, out_stride, rows, old, table):
    """Sum the rows of x, and call the kernel of a width."""
    where = x, y, y_stride, steps, starts, out, out_stride, rows, old, table
    microkernel.sum_rows(x, steps, np.int32(-128), starts)
    if width == 1:
        microkernel.multiply_one(*where)
    elif width == 2:
        microkernel.multiply_two(*where)
    else:
        microkernel.multiply_three(*where)


@pytest.fixture
def half_vectors(monkeypatch):
    """Have kernels compiled for half vectors."""
    monkeypatch.setattr(microkernel, "make_writer", lambda builder: Writer(builder, 8))


@pytest.mark.parametrize("width", range(1, WIDEST + 1))
@pytest.mark.parametrize("rows", [1, 5, ROWS])
def test_sums_are_those_of_int64(half_vectors, rows, width):
    """The rows of `out` below are not touched."""
    rng = np.random.default_rng(rows)
    k = 28
    a, b = (rng.integers(-128, 128, (n, k)) for n in (GROUP, GROUP * width))
    a[0], b[0], b[-1] = -128, -128, 127
    p = residue_system("real", ROWS).moduli[-1]
    table = reduction_table([p])
    x, y = (as_groups(t.astype(np.int8)) for t in (a, b))
    starts = np.zeros(GROUP, np.uint32)
    old = rng.integers(-125, 125, (ROWS, GROUP * width)).astype(np.int8)
    for before in (None, old):
        out = np.full_like(old, 77)
        run_half(
            *(width, x.ctypes.data, y.ctypes.data, y.strides[0], k // 4),
            *(starts.ctypes.data, out.ctypes.data, out.strides[0], rows),
            *(0 if before is None else before.ctypes.data, table.ctypes.data),
        )
        exact = a[:ROWS] @ b.T + (0 if before is None else before)
        expected = (exact + p // 2) % p - p // 2
        assert (out[:rows] == expected[:rows]).all()
        assert (out[rows:] == 77).all()
    assert (starts == 2**31 - 128 * a.sum(axis=1)).all()


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("multiply", KERNELS)
def test_sums_stay_in_registers(monkeypatch, cpu, multiply):
    """Fewer loads than products but for the mask, and nothing is stored."""
    monkeypatch.setattr(microkernel, "count_lanes", lambda: 8)
    loops = find_loops(assemble(multiply, cpu))
    loops = [x for x in loops if any("vpdpbusd" in line for line in x)]
    assert loops
    for loop in loops:
        products = [line for line in loop if "vpdpbusd" in line]
        assert all("{vex}" in line and "%ymm" in line for line in products)
        assert sum("(" in line for line in loop) <= len(products)
        assert not any(re.search(r"\)$", line) for line in loop)


def test_the_widest_vectors_are_taken(monkeypatch):
    half, whole = {"avxvnni", "avx2", "fma"}, {"avx512vnni", "avx512bw"}
    for has, lanes in (((), 0), (half, 8), (half - {"fma"}, 0), (half | whole, 16)):
        monkeypatch.setattr(units, "find_features", lambda has=has: frozenset(has))
        assert units.count_lanes() == lanes
        assert units.has_vnni() == (lanes > 0)
