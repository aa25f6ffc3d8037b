"""The fused products: bands of squares, the ends of planes, and code for Hopper."""

import ctypes
import mmap
import re
from dataclasses import replace
from itertools import pairwise
from itertools import product as every
from types import SimpleNamespace

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.contract import products as contract
from tests.support.cuda.host_device import HostDevice, launches_of_products
from tests.support.cuda.on_cpu import on_cpu
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.errors import KernelError
from twom_dist.kernels.cuda import hopper, tuning
from twom_dist.kernels.cuda import products as launcher
from twom_dist.kernels.cuda.engine import CudaEngine
from twom_dist.kernels.cuda.sources import kernel_names, module_for, source_of
from twom_dist.moduli import residue_system

HOPPER, MMA, SMALL = (s for kind in launcher.SQUARES.values() for s in kind)
FUSED = pytest.mark.parametrize("engine", [80, 90], indirect=True)


@FUSED
@pytest.mark.parametrize("triangle", ["full", "lower", "upper"])
def test_more_squares_a_side_than_a_band_has(engine, triangle):
    """Ten rows of squares: a band of 8 and one of 2, both with their diagonal."""
    side = HOPPER.side if engine.device.capability() == 90 else MMA.side
    n, system = int(9.4 * side), residue_system("real", 1)
    x = contract.draw(engine, n, 16, system, 1)
    wanted = contract.triangle_of(n, triangle)
    found = engine.multiply(x, x, system, triangle=triangle)
    exact = contract.multiply_exactly(x, x, system)
    contract.assert_exact(found, exact, system, 1, wanted)


@FUSED
@pytest.mark.parametrize("uplo", ["full", "upper"])
@pytest.mark.parametrize("routine", [td.gemm, td.herk])
def test_launches_of_a_wave_give_the_bits_of_one(cuda, monkeypatch, routine, uplo):
    """Each part of the squares is made once, and what is added is added once."""
    monkeypatch.setattr(tuning, "LAUNCH_OPERATIONS", {"wgmma": 1.0, "mma": 1.0})
    a = random_matrix(300, 20)
    options = {"op_b": "C"} if routine is td.gemm else {"uplo": uplo}
    given = (a, a[::-1])[: 2 if routine is td.gemm else 1]
    for _ in range(2):
        cuda.device.launched.clear()
        found = routine(*given, num_moduli=3, **options)
        assert same_bits(found, on_cpu(routine, *given, num_moduli=3, **options))
        [name] = launches_of_products(cuda.device)
        assert cuda.device.launched.count(name) > 1
    contract.test_what_is_added_to_stays_as_it_is(cuda)


@pytest.mark.parametrize(
    ("capability", "multiprocessors", "n", "launches"),
    [(90, 132, 4096, 1), (90, 132, 8192, 5), (90, 132, 16384, 39), (89, 128, 8192, 12)],
)
def test_every_launch_but_the_last_has_whole_waves(
    capability, multiprocessors, n, launches
):
    launched, system = [], residue_system("2m", 16)
    device = SimpleNamespace(
        capability=lambda: capability,
        multiprocessors=lambda: multiprocessors,
        launch=lambda *given: launched.append(given),
        constant=lambda table: table,
        address=lambda x: 0,
        map_planes=lambda *given: given,
    )
    planes = SimpleNamespace(shape=(32, n, n))
    residues = SimpleNamespace(strides=(n * n, n, 1))
    given = planes, planes, np.zeros((32, 4), np.int32), system, (n, n), residues
    launcher.launch_products(device, *given, None, "full")
    assert len(launched) == launches
    grids = [grid[0] for _, _, grid, *_ in launched]
    parts = [[*map(int, given[4][-2:])] for given in launched]
    wave, squares = multiprocessors // 2, 32 * (n // 256) ** 2
    if capability == 90:
        assert {*grids} == {multiprocessors}
    else:
        both = zip(parts, grids, strict=True)
        parts = [[first, first + grid] for (_, first), grid in both]
        wave, squares = 2 * multiprocessors, 32 * (n // 128) ** 2
    assert (parts[0][0], parts[-1][1]) == (0, squares)
    assert all(x[1] == y[0] for x, y in pairwise(parts))
    assert all((end - first) % wave == 0 for first, end in parts[:-1])


# --- planes -------------------------------------------------------------------------


class Fenced(HostDevice):
    """Memory behind which nobody may read: who does ends the process."""

    def empty(self, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        whole = np.frombuffer(mmap.mmap(-1, room + mmap.PAGESIZE), np.uint8)
        end = ctypes.c_void_p(whole.ctypes.data + room)
        protect, nobody = ctypes.CDLL(None).mprotect, 0
        assert protect(end, ctypes.c_size_t(mmap.PAGESIZE), nobody) == 0
        start = (room - size) // 512 * 512
        return whole[start : start + size].view(dtype).reshape(shape)

    def check_guards(self, args, name):
        """Leave it to the processor."""


TURING = MMA._replace(
    # What NVRTC defines for it.
    module=replace(MMA.module, macros=(*MMA.module.macros, ("__CUDA_ARCH__", "750")))
)


@pytest.mark.parametrize(
    "squares", [(MMA,), (SMALL,), (TURING,)], ids=["128", "64", "75"]
)
def test_nothing_is_read_past_the_planes(host_kernels, monkeypatch, squares):
    monkeypatch.setitem(launcher.SQUARES, "mma", squares)
    engine = CudaEngine(Fenced(host_kernels, 80))
    system = residue_system("2m", 2)
    for m, n, k in ((64, 64, 128), (1, 70, 16), (129, 257, 48), (3, 5, 270)):
        left, right = (contract.draw(engine, t, k, system, t) for t in (m, n))
        exact = contract.multiply_exactly(left, right, system)
        for found in (
            first := engine.multiply(left, right, system),
            engine.multiply(left, right, system, first),
        ):
            contract.assert_exact(found, exact, system, 1 + (found is not first))


# --- Hopper -------------------------------------------------------------------------


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
    pytest.importorskip("cupy", reason="NVRTC is called through CuPy")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cache"))
    module = module_for("combine")  # smaller than what is for Hopper alone
    code = hopper.cubin_of(module)
    assert code.startswith(b"\x7fELF")
    assert kernel_names("combine")[0].encode() in code
    (path,) = (tmp_path / "cache").iterdir()
    kept, made = path.read_bytes(), path.stat()
    assert kept.endswith(code)
    assert made.st_mode & 0o777 == 0o644
    assert hopper.cubin_of(module) == code
    assert path.stat().st_mtime_ns == made.st_mtime_ns
    # Damaged, it is compiled again, and what is kept is whole again.
    for damaged in (b"", code, kept[:-1], kept[:100] + b"?" + kept[101:]):
        path.write_bytes(damaged)
        assert hopper.cubin_of(module) == code
        assert path.read_bytes() == kept
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
    names = "STAGES", "TILE_ROWS", "TILE_K", "BLOCK_M", "BLOCK_N", "CLUSTER"
    stages, rows, k, block_m, block_n, cluster = (int(found[name]) for name in names)
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
