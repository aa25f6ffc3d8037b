"""The fused products: bands of squares, the ends of planes, and code for Hopper."""

import ctypes
import mmap
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.contract import products as contract
from tests.support.contract import samples
from tests.support.cuda.host import HostKernels
from tests.support.cuda.host_device import HostDevice, host_engine, small_pieces
from tests.support.expect import raises, same_bits
from tests.support.integers import random_integers
from tests.support.pipeline import REFERENCE, add_both_ways, dtype_for, run_stages
from tests.support.strategies import random_matrix
from twom_dist.errors import KernelError
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda import hopper, tuning
from twom_dist.kernels.cuda import products as launcher
from twom_dist.kernels.cuda import samples as launcher_of_samples
from twom_dist.kernels.cuda.engine import CudaEngine
from twom_dist.kernels.cuda.planes import PlaneProducts
from twom_dist.kernels.cuda.sources import module_for, of_samples, signatures
from twom_dist.moduli import make_system, residue_system, samples_system

HOPPER, WIDE, MMA, SMALL, *TILES = (s for x in launcher.SQUARES.values() for s in x)
FUSED = pytest.mark.parametrize(
    ("engine", "chosen"),
    [(80, WIDE), (80, MMA), (90, HOPPER), (110, TILES[1])],
    ids=["80-256", "80", "90", "110"],
    indirect=True,
)
# Of int8, and of float16 as on 10.3.
ON_TILES = pytest.mark.parametrize("engine", [110, 107], indirect=True)


@pytest.fixture
def chosen(request, monkeypatch):
    """Have these squares of residues be made, of whatever size a product is."""
    monkeypatch.setattr(launcher, "choose_squares", lambda *_: request.param)
    return request.param


@FUSED
@cases("triangle", ["full", "lower", "upper"])
def test_more_squares_a_side_than_a_band_has(engine, chosen, triangle):
    """Ten rows of squares: a band of 8 and one of 2, both with their diagonal."""
    n, system = int(9.4 * chosen.side), residue_system("real", 1)
    x = contract.draw(engine, n, 16, system, 1)
    wanted = contract.triangle_of(n, triangle)
    found = engine.multiply(x, x, system, triangle=triangle)
    exact = contract.multiply_exactly(x, x, system)
    contract.assert_exact(found, exact, system, 1, wanted)


@FUSED
@pytest.mark.parametrize("uplo", ["full", "upper"])
@pytest.mark.parametrize("routine", [td.gemm, td.herk])
def test_launches_of_a_wave_give_the_bits_of_one(cuda, chosen, routine, uplo):
    """Each part of the squares is made once, and what is added is added once."""
    a = random_matrix(300, 20)
    options = {"op_b": "C"} if routine is td.gemm else {"uplo": uplo}
    given = (a, a[::-1])[: 2 if routine is td.gemm else 1]
    with small_pieces():
        for _ in range(2):
            cuda.device.launched.clear()
            found = routine(*given, num_moduli=3, **options)
            expected = routine(*given, num_moduli=3, engine="cpu", **options)
            assert same_bits(found, expected)
            assert cuda.device.launched.count(chosen.module.family) > 1
        contract.test_what_is_added_to_stays_as_it_is(cuda)


@cases(
    ("capability", "large"),
    [(75, MMA), (80, WIDE), (89, WIDE), (90, HOPPER), (120, WIDE)],
)
def test_large_products_are_made_by_the_largest_blocks_that_fit(capability, large):
    """A block of Turing may have 64 KB. Those of short k, and samples, go as before."""
    device, before = HostDevice(None, capability), HOPPER if large is HOPPER else MMA
    assert large.shared <= device.shared_bytes()
    choose = partial(launcher.choose_squares, device)
    for triangle in ("full", "lower", "upper"):
        assert choose((4096, 4096, 4096), triangle, 6) == large
        assert choose((4096, 4096, 256), triangle, 6) == before
        assert choose((4096, 4096, 4096), triangle, 6, samples=True) == before
        assert choose((60, 60, 4096), triangle, 6) == SMALL


@pytest.mark.parametrize("engine", [86], indirect=True)
def test_blocks_of_256_x_128_read_three_quarters_of_the_bytes(engine, monkeypatch):
    kernels, system, found = engine.device.kernels, residue_system("real", 1), []
    left, right = (contract.draw(engine, 512, 128, system, t) for t in (1, 2))
    for own in (WIDE, MMA):
        monkeypatch.setattr(launcher, "choose_squares", lambda *_, own=own: own)
        kernels.take_copied("products_mma")
        engine.multiply(left, right, system)
        found.append(kernels.take_copied("products_mma") / (512 * 512 * 128))
    assert found == [1 / 128 + 1 / 256, 2 / 128]


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

    def check_guards(self):
        """Leave it to the processor."""


TURING = MMA._replace(
    # What NVRTC defines for it.
    module=replace(MMA.module, macros=(*MMA.module.macros, ("__CUDA_ARCH__", "750")))
)


@pytest.mark.parametrize(
    "chosen", [WIDE, MMA, SMALL, TURING], ids=["256", "128", "64", "75"], indirect=True
)
def test_nothing_is_read_past_the_planes(host_kernels, chosen):
    engine = CudaEngine(Fenced(host_kernels, 80))
    system = residue_system("2m", 2)
    for m, n, k in ((64, 64, 128), (1, 70, 16), (129, 257, 48), (3, 5, 270)):
        left, right = (contract.draw(engine, t, k, system, t) for t in (m, n))
        exact = contract.multiply_exactly(left, right, system)
        first = engine.multiply(left, right, system)
        contract.assert_exact(first, exact, system)
        twice = engine.multiply(left, right, system, first)
        contract.assert_exact(twice, exact, system, 2)


@pytest.mark.parametrize(
    "squares", [HOPPER, MMA, SMALL, TURING], ids=["90", "128", "64", "75"]
)
@cases(("left", "right"), [("int8", "uint8"), ("uint8", "int8")])
@cases(("m", "n", "k"), [(70, 300, 130), (3, 2, (1 << 15) + 5)])
@cases("conjugated", [(False, False), (False, True), (True, False), (True, True), None])
def test_every_kernel_makes_sums_of_samples(
    engine, monkeypatch, squares, m, n, k, left, right, conjugated
):
    """Of long rows in shares along k; the largest samples have one sign each."""
    monkeypatch.setattr(launcher_of_samples, "choose_squares", lambda *_: squares)
    monkeypatch.setattr(tuning, "SHORTEST_SHARE", 64)
    for bound in (1, 1 << 40):
        pairs, options = conjugated is not None, conjugated or (False, False)
        found, system = [], samples_system(pairs, bound)
        for own in (engine, REFERENCE):
            x, y = (
                samples.draw(own, (m, k), left, pairs, 1),
                samples.draw(own, (n, k), right, pairs, 2),
            )
            for t in (x, y):
                least, most = t[0, 0], t[-1, -1]
                t[0], t[-1] = least, most
            x, y = (
                own.encode(t, np.zeros(len(t), np.int32), system, conjugate=c)
                for t, c in zip((x, y), options, strict=True)
            )
            first = own.multiply(x, y, system)
            twice = add_both_ways(own, x, y, system, first)
            found.append([t[..., :n] for t in (first, *twice)])
        for t, expected in zip(*found, strict=True):
            assert np.array_equal(t, expected)


@pytest.mark.parametrize("squares", [MMA, SMALL], ids=["128", "64"])
@cases(("left", "right"), [("i", "i"), ("u", "u"), ("i", "u"), ("u", "i")])
@cases("conjugated", [(False, True), (True, False), (False, False)])
def test_rows_by_themselves_are_a_triangle(
    engine, monkeypatch, squares, conjugated, left, right
):
    """Hermitian only where both sides are conjugates of the same numbers, not bytes."""
    monkeypatch.setattr(launcher_of_samples, "choose_squares", lambda *_: squares)
    monkeypatch.setattr(launcher_of_samples, "_PANEL", 128)  # two pieces along k
    n, k, found, system = 70, 72, [], samples_system(True, 1 << 40)
    lower = np.tri(n, dtype=bool)
    for own in (engine, REFERENCE):
        x = random_integers((n, k), "int8", True)
        x[0], x[-1] = -128, 127
        x, y = (
            own.encode(given, np.zeros(n, np.int32), system, conjugate=c)
            for kind, c in zip((left, right), conjugated, strict=True)
            for given in [samples.as_taken(own, x.view(f"{kind}1"), True)]
        )
        sums = own.multiply(x, y, system, triangle="lower")
        found.append(sums[..., :n][..., lower])
    assert np.array_equal(*found)


@pytest.mark.parametrize(
    ("engine", "chosen"),
    [*zip([80, 80, 80, 110, 110, 107, 107], (WIDE, MMA, SMALL, *TILES), strict=True)],
    ids=["mma-256", "mma-128", "mma-64", "256", "128", "float16-256", "float16-128"],
    indirect=True,
)
@cases(
    ("shape", "triangle"),
    [
        *((x, "full") for x in ((1, 1, 1), (129, 257, 48), (270, 3, 300))),
        *(((n, n, 64), x) for n in (50, 300) for x in ("lower", "upper")),
    ],
)
def test_squares_of_each_side(engine, chosen, shape, triangle):
    system, (m, n, k) = residue_system("2m", 1), shape
    left = contract.draw(engine, m, k, system, 1)
    right = contract.draw(engine, n, k, system, 2) if triangle == "full" else left
    wanted = np.True_ if triangle == "full" else contract.triangle_of(n, triangle)
    exact = contract.multiply_exactly(left, right, system)
    found = engine.multiply(left, right, system, triangle=triangle)
    contract.assert_exact(found, exact, system, 1, wanted)
    for own in add_both_ways(engine, left, right, system, found, triangle=triangle):
        contract.assert_exact(own, exact, system, 2, wanted)


@ON_TILES
@cases("farthest", [1 << 14, (1 << 31) - 16])
def test_planes_that_lie_far_apart_are_multiplied_one_by_one(
    engine, monkeypatch, farthest
):
    monkeypatch.setattr(launcher, "_FARTHEST", farthest)
    system, exponents = residue_system("2m", 2), np.zeros((3, 17), np.int32)
    x, y = (random_matrix(51, 20, "complex128", 1.0, t) * 1e6 for t in (1, 2))
    x, y = (t.reshape(3, 17, 20) for t in (x, y))
    left, right = (engine.encode(t, exponents, system) for t in (x, y))
    engine.device.launched.clear()
    found = engine.multiply(left, right, system)
    launches = engine.device.launched.count("products_tile")
    assert launches == (3 * 4 if farthest == 1 << 14 else 1)
    twice = engine.multiply(left, right, system, found)
    for i in range(3):
        alone = [engine.encode(t[i], exponents[i], system) for t in (x, y)]
        exact = contract.multiply_exactly(*alone, system)
        contract.assert_exact(found[:, i], exact, system)
        contract.assert_exact(twice[:, i], exact, system, 2)
    # One product of many planes, whose own distance is too long.
    monkeypatch.setattr(launcher, "_FARTHEST", 1 << 12)
    last, out = len(system.products) - 1, np.zeros_like(found[-1:, 2])
    task = PlaneProducts(*alone, system, out, own=(last,))
    launcher.multiply_fused(engine.device, task, "full")
    assert np.array_equal(out[..., :17], found[-1:, 2, :, :17])


@cases("uplo", ["lower", "upper"])
@cases("pairs", [False, True])
@pytest.mark.parametrize("squares", [MMA, SMALL], ids=["128", "64"])
def test_squares_on_the_diagonal_take_blocks_of_it_and_below_in_equal_shares(
    cuda, monkeypatch, squares, pairs, uplo
):
    """Of four matrices, whose blocks give the halves of a diagonal to other warps."""
    monkeypatch.setattr(launcher_of_samples, "choose_squares", lambda *_: squares)
    side, parts, byte = squares.side, 1 + pairs, np.dtype(np.int8)
    x, step = random_integers((4, side, 64 // parts), "int8", pairs), 4 * 2 * parts
    module = of_samples(squares.module, samples_system(pairs, 1), byte, byte, pairs)
    counts, kernels = [], cuda.device.kernels
    for routine in (td.integers.gemm, td.integers.herk if pairs else td.integers.syrk):
        given, options = (x,), {"uplo": uplo}
        if routine is td.integers.gemm:
            given, options = (x, x), {"op_b": "C"}
        kernels.take_counts(module, side * parts)
        found = routine(*given, pairs=pairs, **options)
        expected = routine(*given, pairs=pairs, engine="reference", **options)
        assert same_bits(np.asarray(found), expected)
        each = kernels.take_counts(module, side * parts)[::32]
        counts.append([x / step for x in each])
    whole, half = counts
    blocks = side // 16
    assert sum(whole) == 2 * blocks**2
    # A Hermitian product has both parts of 8 x 8 entries of its diagonal at a time.
    joined = blocks / 2 if pairs and uplo == "lower" else 0
    assert sum(half) == blocks * (blocks + 1) - joined
    assert max(half) <= sum(half) / len(half) * 10 / 9


def test_a_map_that_the_driver_refuses(monkeypatch):
    """That maps are right is seen on a device."""
    monkeypatch.setattr(hopper, "driver_function", lambda _: lambda *_: 1)
    with raises(KernelError, "tensor-map"):
        hopper.map_planes(4096, (3, 128, 64))


def test_code_is_compiled_once_and_kept_and_damaged_code_is_not_taken(
    tmp_path, monkeypatch
):
    pytest.importorskip("cupy", reason="NVRTC is called through CuPy")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cache"))
    module = module_for("combine")  # smaller than what is for Hopper alone
    code = hopper.cubin_of(module)
    assert code.startswith(b"\x7fELF")
    assert all(name.encode() in code for name in signatures("combine"))
    (path,) = (tmp_path / "cache").iterdir()
    kept, made = path.read_bytes(), path.stat()
    assert hopper.cubin_of(module) == code
    assert path.stat().st_mtime_ns == made.st_mtime_ns
    for damaged in (b"", code, kept[:-1], kept[:100] + b"?" + kept[101:]):
        path.write_bytes(damaged)
        assert hopper.cubin_of(module) == code
        assert path.read_bytes() == kept
    # A folder that cannot be made: compiled again, and nothing is kept.
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert hopper.cubin_of(module) == code


@pytest.mark.parametrize("choice", [("2m", 16), ("hybrid", 22), ("real", 15)])
def test_systems_that_are_constants_of_a_text_give_the_bits_of_variables(
    kept, host_kernels, choice
):
    """As on a device; those tests that share what is built have variables."""
    engine = host_engine(HostKernels(kept, specialised=True))
    system, dtype = residue_system(*choice), dtype_for(choice[0])
    x, y = (random_matrix(rows, 9, dtype, 2.0, rows) for rows in (5, 7))
    found, expected = (
        run_stages(own, x, y, system) for own in (engine, get_engine("cpu"))
    )
    assert all(same_bits(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("engine", [103], indirect=True)
@cases("p", [131, 241, 256])
def test_extreme_residues_at_the_limit_of_a_chunk_in_float16(engine, p):
    """No sum that float32 does not hold, which the device refuses."""
    system, half = make_system("real", ((p, "real"),)), p // 2
    k = ((1 << 24) - 1) // half**2 // 16 * 16
    for columns in (k, 2 * k + 5):
        for a, b in ((-half, -half), ((p - 1) // 2, -half)):
            left, right = (
                contract.encode_integers(
                    engine, np.full((3, columns), float(t)), system
                )
                for t in (a, b)
            )
            exact = [np.full((3, 3), (a * b * columns + half) % p - half)]
            found = engine.multiply(left, right, system)
            contract.assert_exact(found, exact, system)
            for twice in add_both_ways(engine, left, right, system, found):
                contract.assert_exact(twice, exact, system, 2)
