"""The fused products against exact integers: texts, and maps and code for Hopper."""

import ctypes
import mmap
import re
from dataclasses import replace
from itertools import pairwise
from itertools import product as every
from unittest.mock import Mock

import numpy as np
import pytest

from tests.support.cuda.calls import guarded
from tests.support.expect import raises
from twom_dist.errors import KernelError
from twom_dist.kernels.cuda import hopper, tables
from twom_dist.kernels.cuda import products as launcher
from twom_dist.kernels.cuda.launch import triangle_arg
from twom_dist.kernels.cuda.sources import (
    kernel_names,
    module_for,
    source_of,
)
from twom_dist.moduli import residue_system

SYSTEM = residue_system("2m", 4)
JOBS = [(0, 1, 0), (1, 0, 1), (5, 4, 5)]


def planes(rows, k, seed):
    """Six planes with their zeros, and the extreme values in the corners."""
    shape = 6, -(-rows // 64) * 64, -(-k // 128) * 128
    with guarded(shape, np.int8) as out:
        out[...] = 0
        rng = np.random.default_rng(seed)
        out[:, :rows, :k] = rng.integers(-128, 128, (6, rows, k))
        out[:, 0, :k], out[:, rows - 1, :k] = -128, 127
    return out


HOPPER, MMA, SMALL = (s for kind in launcher.SQUARES.values() for s in kind)
# What NVRTC defines for Turing.
_TURING = ("__CUDA_ARCH__", "750")
TURING = MMA._replace(module=replace(MMA.module, macros=(*MMA.module.macros, _TURING)))
KERNELS = {"wgmma": HOPPER, "mma": MMA, "mma-64": SMALL, "mma-75": TURING}


def of_each(*names):
    """Take kernels by name."""
    return pytest.mark.parametrize("kernel", [KERNELS[x] for x in names], ids=names)


def multiply(
    calls,
    kernel,
    x,
    y,
    m,
    n,
    residues,
    *,
    old=None,
    blocks=4,
    triangle="full",
    jobs=JOBS,
    stack=1,
    parts=1,
):
    rows = [t.shape[1] // stack for t in (x, y)]
    if kernel is HOPPER:
        maps = []
        for t in (x, y):
            one = np.zeros(1, hopper.TENSOR_MAP)
            one["word"][0, :3] = t.ctypes.data, t.shape[0] * t.shape[1], t.shape[2]
            maps.append(one[0])
        sizes = *(np.int32(t // 64) for t in rows), np.int32(x.shape[2] // 128)
    else:
        maps, sizes = [x, y], map(np.int64, (*rows, x.shape[2]))
    squares = launcher.count_squares(m, n, triangle, kernel.side)
    ends = [stack * len(jobs) * squares * part // parts for part in range(parts + 1)]
    args = (
        *(*maps, *sizes),
        np.array([(*job, job[2]) for job in jobs], np.int32),
        np.int32(len(jobs)),
        tables.requantise_table(SYSTEM),
        *(np.int64(m), np.int64(n), old, residues),
        *(np.int64(residues.strides[1]), np.int64(residues.strides[0])),
        *(triangle_arg(triangle), np.int32(stack)),
    )
    for first, end in pairwise(map(np.int64, ends)):
        part = (first,)
        if kernel is HOPPER:
            part = first, end
        else:
            blocks = int(end - first)
        given = (blocks, 1, 1), (kernel.threads, 1, 1), (*args, *part)
        calls.kernels.launch(kernel.module, kernel.module.family, *given)


def shape_of(m, n):
    """Residues of eight products, with the zeros at the ends of their rows."""
    return 8, m, -(-n // 16) * 16


def expected(x, y, m, n, q, before=0):
    left, right, _ = next(job for job in JOBS if job[2] == q)
    exact = x[left, :m].astype(np.int64) @ y[right, :n].astype(np.int64).T + before
    p = SYSTEM.products[q].p
    return (exact + p // 2) % p - p // 2


@of_each(*KERNELS)
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        *[(1, 1, 1), (7, 100, 64), (64, 64, 16), (65, 63, 130), (100, 7, 1)],
        *[(127, 128, 270), (128, 127, 20), (129, 257, 48), (300, 270, 20)],
    ],
)
def test_every_size(calls, kernel, m, n, k):
    x, y = planes(m, k, 1), planes(n, k, 2)
    with guarded(shape_of(m, n), np.int8) as residues:
        before = residues.copy()
        multiply(calls, kernel, x, y, m, n, residues)
        for q in range(8):
            if q in (job[2] for job in JOBS):
                assert (residues[q, :, :n] == expected(x, y, m, n, q)).all()
                assert not residues[q, :, n:].any()
            else:
                assert (residues[q] == before[q]).all()
        earlier = residues.copy()
        with guarded(shape_of(m, n), np.int8) as apart:
            multiply(calls, kernel, x, y, m, n, apart, old=residues, blocks=2)
        assert (residues == earlier).all()
        multiply(calls, kernel, x, y, m, n, residues, old=residues, blocks=2)
        earlier = earlier[:, :, :n].astype(np.int64)
        for q, found in every((job[2] for job in JOBS), (residues, apart)):
            assert (found[q, :, :n] == expected(x, y, m, n, q, earlier[q])).all()
            assert not found[q, :, n:].any()


@pytest.mark.parametrize("blocks", [2, 6, 40])
def test_blocks_that_walk_over_several_bands(calls, blocks):
    m, n, k = 2100, 300, 16  # 17 rows of blocks: one band of 16, and one more
    x, y = planes(m, k, 3), planes(n, k, 4)
    with guarded(shape_of(m, n), np.int8) as residues:
        multiply(calls, HOPPER, x, y, m, n, residues, blocks=blocks)
        for _, _, q in JOBS:
            assert (residues[q, :, :n] == expected(x, y, m, n, q)).all()


# 10 rows of squares: a band of 8 and one of 2, both with their diagonal.
@pytest.mark.parametrize(
    ("name", "sides", "triangle", "blocks"),
    [
        *every(["wgmma"], [0.01, 1, 1.2], ["lower", "upper"], [2, 14]),
        *every(["mma", "mma-64"], [0.02, 1, 1.2, 9.4], ["lower", "upper"], [None]),
        *[("wgmma", 9.4, "lower", 14), ("wgmma", 4.3, "upper", 2)],
    ],
)
def test_squares_of_a_triangle(calls, name, sides, triangle, blocks):
    kernel, side = KERNELS[name], KERNELS[name].side
    n = int(sides * side)
    x, y = planes(n, 16, 7), planes(n, 16, 8)
    squares = np.kron(np.tri(-(-n // side), dtype=bool), np.ones((side, side), bool))
    wanted = (squares if triangle == "lower" else squares.T)[:n, :n]
    with guarded(shape_of(n, n), np.int8) as whole:
        residues, before = whole[:, :, :n], whole[:, :, :n].copy()
        jobs = JOBS if sides < 2 else JOBS[:1]
        given = {"blocks": blocks, "triangle": triangle, "jobs": jobs}
        multiply(calls, kernel, x, y, n, n, whole, **given)
        for _, _, q in jobs:
            assert (residues[q] == expected(x, y, n, n, q))[wanted].all()
            assert (residues[q] == before[q])[~wanted].all()


@of_each("wgmma", "mma", "mma-64")
def test_a_stack_of_matrices(calls, kernel):
    m, n, k, stack = 70, 130, 16, 3
    x, y = planes(stack * 128, k, 9), planes(stack * 192, k, 10)
    for t, used, rows in ((x, m, 128), (y, n, 192)):
        for b in range(stack):
            t[:, b * rows + used : (b + 1) * rows] = 0
    with guarded((8, stack * m, 144), np.int8) as residues:
        multiply(calls, kernel, x, y, m, n, residues, stack=stack, parts=2)
        for b in range(stack):
            own = x[:, 128 * b : 128 * b + m], y[:, 192 * b : 192 * b + n]
            for _, _, q in JOBS:
                found = residues[q, b * m : (b + 1) * m, :n]
                assert (found == expected(*own, m, n, q)).all()


@of_each("mma", "mma-64", "mma-75")
def test_nothing_is_read_past_the_planes(calls, kernel):
    shape = 6, 64, 128
    size = int(np.prod(shape))
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.uint8)
    end = ctypes.c_void_p(whole.ctypes.data + size)
    # Whoever reads the page behind them ends the process.
    nobody = 0
    protect = ctypes.CDLL(None).mprotect
    assert protect(end, ctypes.c_size_t(mmap.PAGESIZE), nobody) == 0
    x = whole[:size].view(np.int8).reshape(shape)
    x[...] = planes(64, 128, 11)
    with guarded(shape_of(64, 64), np.int8) as residues:
        multiply(calls, kernel, x, x, 64, 64, residues, jobs=[(5, 5, 5)])
        exact = x[5].astype(np.int64) @ x[5].astype(np.int64).T
        p = SYSTEM.products[5].p
        assert (residues[5] == (exact + p // 2) % p - p // 2).all()


# Beyond 2^17 the sums would not fit 32 bits.
@of_each("wgmma", "mma")
@pytest.mark.parametrize("k", [65536, 65552, (1 << 17) + 144])
def test_sums_of_long_k_are_reduced_in_between(calls, kernel, k):
    x, y = planes(2, k, 5), planes(2, k, 6)
    x[:, :2, :k], y[:, :2, :k] = -128, -128
    with guarded(shape_of(2, 2), np.int8) as residues:
        multiply(calls, kernel, x, y, 2, 2, residues, jobs=JOBS[:1])
        q = JOBS[0][2]
        assert (residues[q, :, :2] == expected(x, y, 2, 2, q)).all()


def test_a_map_puts_rows_at_the_slots_of_the_kernel(monkeypatch):
    seen = {}

    def encode(out, kind, rank, address, lengths, distances, box, steps, *flags):
        seen.update(lengths=[*lengths], distances=[*distances], box=[*box], flags=flags)
        return seen["status"]

    monkeypatch.setattr(hopper, "_encode_tiled", lambda: encode)
    hopper.map_planes.cache_clear()
    seen["status"] = 0
    assert isinstance(hopper.map_planes(4096, (3, 128, 48)), np.void)
    assert seen["lengths"] == [48, 2, 4, 8, 6]
    assert np.prod(seen["box"]) == 128 * 128
    strides = [1, *seen["distances"]]
    # The innermost axes first: the order in which a copy fills shared memory.
    order = [
        sum(i * s for i, s in zip(index[::-1], strides, strict=True))
        for index in every(range(1), range(8), range(4), range(2), [0])
    ]
    rows = [16 * (s >> 1 & 3) + 2 * (s >> 3) + (s & 1) for s in range(64)]
    assert order == [48 * row for row in rows]
    seen["status"] = 1
    with raises(KernelError, "tensor-map"):
        hopper.map_planes(4096, (3, 128, 64))
    hopper.map_planes.cache_clear()


def test_code_is_compiled_once_and_kept(tmp_path, monkeypatch):
    cupy = pytest.importorskip("cupy", reason="NVRTC is called through CuPy")
    nvrtc = cupy.cuda.nvrtc
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cache"))
    module = module_for("combine")  # smaller than what is for Hopper alone
    code = hopper.cubin_of(module)
    assert code.startswith(b"\x7fELF")
    assert kernel_names("combine")[0].encode() in code
    (path,) = (tmp_path / "cache").iterdir()
    kept = path.read_bytes()
    assert kept.endswith(code)
    assert path.stat().st_mode & 0o777 == 0o644
    compiler = Mock(wraps=nvrtc.createProgram)
    monkeypatch.setattr(nvrtc, "createProgram", compiler)
    assert hopper.cubin_of(module) == code
    assert compiler.call_count == 0
    # Damaged, it is compiled again, and what is kept is whole again.
    for damaged in (b"", code, kept[:-1], kept[:100] + b"?" + kept[101:]):
        path.write_bytes(damaged)
        assert hopper.cubin_of(module) == code
        assert path.read_bytes() == kept
    assert compiler.call_count == 4
    # As CuPy has it: nothing is read or written.
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    path.write_bytes(b"")
    assert hopper.cubin_of(module) == code
    assert path.read_bytes() == b""
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY")
    # A folder that cannot be made: compiled again, and nothing is kept.
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert hopper.cubin_of(module) == code


def test_numbers_agree_with_the_text():
    text = source_of(module_for("products"))
    found = dict(re.findall(r"^#define (\w+) (\d+)", text, re.MULTILINE))
    stages, rows, k, block_m, block_n, cluster = (
        int(found[name])
        for name in ("STAGES", "TILE_ROWS", "TILE_K", "BLOCK_M", "BLOCK_N", "CLUSTER")
    )
    assert stages * 3 * rows * k + 1024 == HOPPER.shared
    assert cluster * block_m == block_n == HOPPER.side
    assert (k, 128 + 2 * 128) == (hopper.LINE, HOPPER.threads)
    assert f"__launch_bounds__({HOPPER.threads}, 1)" in text
    text = source_of(MMA.module)
    (k,) = re.findall(r"^#define TILE_K (\d+)", text, re.MULTILINE)
    assert hopper.LINE % int(k) == 0
    assert f"__launch_bounds__({MMA.threads}, 2)" in text


@pytest.mark.parametrize(
    ("kernels", "m", "n", "products", "expected"),
    [
        *[(("mma",), n, n, 32, SMALL) for n in (1, 64, 128)],
        *[(("mma",), n, n, 32, MMA) for n in (256, 512, 1000, 8192)],
        *[(("mma",), 64, 8192, 32, SMALL), (("mma",), 128, 8192, 32, MMA)],
        *[(("mma",), n, n, 32 * 256, SMALL) for n in (64, 150)],
        *[(("mma",), n, n, 32 * 256, MMA) for n in (100, 128, 200)],
        *[(("wgmma", "mma"), n, n, 32, SMALL) for n in (1, 64, 128)],
        *[(("wgmma", "mma"), n, n, 32, HOPPER) for n in (129, 256, 1024, 8192)],
        *[(("wgmma", "mma"), n, n, 32 * 256, SMALL) for n in (1, 64)],
        *[(("wgmma", "mma"), n, n, 32 * 256, MMA) for n in (65, 128)],
        *[(("wgmma", "mma"), n, n, 32 * 256, HOPPER) for n in (129, 256)],
    ],
)
def test_squares_suit_the_matrices(kernels, m, n, products, expected):
    given = m, n, "full", products
    assert launcher.choose_squares(kernels, 132, *given) is expected
