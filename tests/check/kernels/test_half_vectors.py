"""The kernels of CPUs without AVX512: half of the vectors, and the same sums."""

import platform
from functools import cache

import numpy as np
import pytest
from numba import intp, njit

from tests.support.cpu_ways import half_vectors
from twom_dist.kernels.cpu.encode.weighted_sums import PLANES, weigh_lines
from twom_dist.kernels.cpu.planes import as_groups
from twom_dist.kernels.cpu.products import microkernel
from twom_dist.kernels.cpu.products.microkernel import GROUP, ROWS, WIDEST
from twom_dist.kernels.cpu.products.reduction import reduction_entry, reduction_table
from twom_dist.kernels.cpu.units import find_features
from twom_dist.moduli import residue_system

# What multiplies pairs, fours or eights, on the machines of these tests; and nothing.
FEATURES = [frozenset()]
if platform.machine() == "x86_64":
    FEATURES.append(frozenset(["avx2"]))
if "dotprod" in find_features():
    FEATURES.append(frozenset(["dotprod"]))
if "i8mm" in find_features():
    FEATURES.append(frozenset(["dotprod", "i8mm"]))


@cache
def compile_half(features, kind):
    """Compile what sums the rows of x, and calls the kernel of a width."""
    zero = kind(0)

    @njit
    def run(width, x, y, y_stride, steps, starts, out, out_stride, rows, old, table):
        where = zero, x, y, y_stride, steps, starts, out, out_stride, rows, old, table
        offset = microkernel.find_offset()
        microkernel.sum_rows(x, steps, np.int32(-offset), starts)
        if width == 1:
            microkernel.multiply_one(*where)
        elif width == 2:
            microkernel.multiply_two(*where)
        else:
            microkernel.multiply_three(*where)

    with half_vectors(features):
        run.compile((intp,) * 11)
    return run


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("width", range(1, WIDEST + 1))
@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("kind", [np.int8, np.int32])
def test_sums_are_those_of_int64(kind, rows, width, features):
    """The rows of `out` below are not touched."""
    rng, k = np.random.default_rng(rows), 28  # an odd number of steps
    a, b = (rng.integers(-128, 128, (n, k)) for n in (GROUP, GROUP * width))
    a[0], b[0], b[-1] = -128, -128, 127
    x, y = (as_groups(t.astype(np.int8)) for t in (a, b))
    starts = np.zeros(GROUP, np.uint32)
    p, sign = residue_system("real", ROWS).moduli[-1], 1
    table = reduction_table([p])
    if kind is np.int32:
        p, sign = 1 << 32, -1
        table = np.array([sign], np.int32)
    old = rng.integers(-125, 125, (ROWS, GROUP * width)).astype(kind)
    for before in (None, old):
        out = np.full_like(old, 77)
        compile_half(features, kind)(
            *(width, x.ctypes.data, y.ctypes.data, y.strides[0], k // 4),
            *(starts.ctypes.data, out.ctypes.data, out.strides[0], rows),
            *(0 if before is None else before.ctypes.data, table.ctypes.data),
        )
        exact = a[:ROWS] @ b.T * sign
        exact += 0 if before is None else before
        expected = (exact + p // 2) % p - p // 2
        assert (out[:rows] == expected[:rows]).all()
        assert (out[rows:] == 77).all()
    offset = 0 if "dotprod" in features else 128
    assert (starts == 2**31 - offset * a.sum(axis=1)).all()


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("planes", [1, PLANES])
def test_lines_of_encoded_entries_are_those_of_int64(planes, features):
    """Planes below are not touched."""

    @njit
    def weigh(words, lines, weights, entries, out):
        where = weights.ctypes.data, entries.ctypes.data, planes, out.ctypes.data
        weigh_lines(words.ctypes.data, words.shape[1], lines, *where, out.strides[0])

    rng = np.random.default_rng(planes)
    words = rng.integers(0, 256, (3, 5, 4, 16, 4)).astype(np.uint8)
    words[0], words[1, 0] = 255, 0
    weights = rng.integers(-128, 128, (5, 16, 4)).astype(np.int8)
    weights[:, 0], weights[:, 1] = -128, 127
    moduli = np.array([256, 241, 255, 19])
    entries, starts = np.zeros(len(moduli), "i4, i4, i4, f4"), np.array([-1, 5, 0, 9])
    for row, (p, start) in enumerate(zip(moduli, starts, strict=True)):
        given = weights[:, row].ravel().tolist()
        entries[row] = 0, *reduction_entry(int(p), int(start), given)
    out = np.full((PLANES, 2, 16, 4), 77, np.int8)
    with half_vectors(features):
        weigh(words, 2, weights, entries, out)
    exact = np.einsum("lotrb,opb->pltr", *(x.astype(int) for x in (words[:2], weights)))
    exact = exact[:PLANES] + starts[:, None, None, None]
    p = moduli[:, None, None, None]
    expected = ((exact + p // 2) % p - p // 2).swapaxes(2, 3)
    assert (out[:planes] == expected[:planes]).all()
    assert (out[planes:] == 77).all()
