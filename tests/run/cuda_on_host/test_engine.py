"""The whole CUDA engine on the host: its launches, its kernels, equal bits."""

from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases, sample
from tests.support.cuda import every_kernel
from tests.support.cuda.host_device import (
    EVERY_WAY,
    FUSED_OR_NOT,
    POISON,
    HostDevice,
    launches_of_products,
)
from tests.support.cuda.on_cpu import on_cpu
from tests.support.expect import raises
from tests.support.pipeline import add_both_ways
from tests.support.strategies import LAYOUTS, random_matrix
from twom_dist.errors import KernelError, MemoryLimitError
from twom_dist.kernels.cuda import tuning, workspace
from twom_dist.kernels.cuda.products import deriving_pays
from twom_dist.moduli import residue_system
from twom_dist.testing import random_matrix as spread_matrix
from twom_dist.tiles.cache import encoded_tiles

# Small products have launches of their own elsewhere: see test_at_once.py.
BY_STAGES = pytest.mark.parametrize("engine", [100], indirect=True)
ROUTINES = [td.herk, td.syrk, td.her2k, td.syr2k]


@BY_STAGES
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_gemm_of_every_layout(cuda, dtype, layout):
    A = random_matrix(19, 23, dtype, 2.0, 1)
    B = random_matrix(17, 23, dtype, 2.0, 2)
    C = random_matrix(19, 17, dtype, 2.0, 3)
    A[3, 5], B[2], C[1, 1] = np.nan, 0, np.inf
    A, B, C = map(LAYOUTS[layout], (A, B, C))
    options = {"op_b": "C", "alpha": -1.5, "beta": 0.25}
    assert same_bits(td.gemm(A, B, C, **options), on_cpu(td.gemm, A, B, C, **options))


@BY_STAGES
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, complex(0, np.inf)])
@pytest.mark.parametrize("ops", ["NN", "CN", "NT", "CC"])
def test_what_is_not_finite_reaches_the_same_entries(cuda, ops, value):
    A, B = random_matrix(9, 9, "complex128", 1.0, 1), random_matrix(9, 9, seed=2)
    A[2, 3], A[4], A[6, 1] = value, 0, -np.inf
    B[5, 5], B[:, 7], B[3, 2] = value, 0, 0
    options = {"op_a": ops[0], "op_b": ops[1], "alpha": 0.5 - 1j}
    with dask.config.set({"twom-dist.workspace-bytes": 10**9}):
        found = td.gemm(A, B, **options)
    expected = on_cpu(td.gemm, A, B, **options)
    assert same_bits(found, expected)
    assert not np.isfinite(found).all()


@FUSED_OR_NOT
@sample("method", ["2m", "3m", "4m", "hybrid", "eisenstein"], ["2m", "eisenstein"])
@pytest.mark.parametrize("routine", ROUTINES)
def test_updates(cuda, routine, method, monkeypatch):
    monkeypatch.setattr(tuning, "SMALLEST_UPDATE_TILE", 16)
    two = routine in (td.her2k, td.syr2k)
    matrices = [random_matrix(37, 23, "complex128", 1.0, s) for s in range(1 + two)]
    for uplo in ("full", "upper"):
        options = {"method": method, "uplo": uplo, "num_moduli": 4}
        found = routine(*matrices, **options)
        assert same_bits(found, on_cpu(routine, *matrices, **options))


@FUSED_OR_NOT
@pytest.mark.parametrize("routine", ROUTINES)
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("float32", {}),
        ("float64", {}),
        ("complex64", {"method": "3m", "num_moduli": 1}),
    ],
)
def test_updates_without_mirrors(cuda, routine, dtype, options):
    two = routine in (td.her2k, td.syr2k)
    matrices = [random_matrix(37, 23, dtype, 1.0, s) for s in range(1 + two)]
    found = routine(*matrices, **options)
    assert same_bits(found, on_cpu(routine, *matrices, **options))


@FUSED_OR_NOT
@pytest.mark.parametrize("routine", ROUTINES)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_beta_c_and_tiles_of_updates(cuda, routine, dtype, monkeypatch):
    monkeypatch.setattr(tuning, "SMALLEST_UPDATE_TILE", 16)
    two = routine in (td.her2k, td.syr2k)
    matrices = [random_matrix(37, 23, dtype, 1.0, s) for s in range(1 + two)]
    C = random_matrix(37, 37, dtype, 1.0, 7)
    C[np.triu_indices(37, 1)] = np.nan
    for alpha in (1, 0, -0.5):
        options = {"alpha": alpha, "beta": 2.5, "uplo": "lower", "num_moduli": 5}
        found = routine(*matrices, C, **options)
        assert same_bits(found, on_cpu(routine, *matrices, C, **options))


def test_strides_that_fit_no_element_are_refused(engine):
    x = spread_matrix(20, 15, dtype="float64", seed=1)[:, :6].view("complex128")
    with raises(KernelError, "strides"):
        engine.largest_exponents(x)


@FUSED_OR_NOT
def test_a_workspace_limit_changes_no_bit_and_holds(cuda):
    A, B = spread_matrix(300, 550, seed=1), spread_matrix(550, 280, seed=2)
    device = cuda.device
    with dask.config.set({"twom-dist.workspace-bytes": 10**9}):
        whole = td.gemm(A, B, num_moduli=8)
    largest = max(device.allocated)
    device.allocated.clear()
    with dask.config.set({"twom-dist.workspace-bytes": 6 << 20}):
        assert same_bits(td.gemm(A, B, num_moduli=8), whole)
    assert max(device.allocated) < min(largest, 2 << 20)
    with (
        dask.config.set({"twom-dist.workspace-bytes": 1000}),
        raises(MemoryLimitError, "workspace"),
    ):
        td.gemm(A, B)


@EVERY_WAY
def test_long_k_is_reduced_in_between(engine):
    k = (1 << 16) + 40
    x = np.full((3, k), 1.0)
    system = residue_system("real", 2)
    e = np.full(3, 7, np.int32)
    left = engine.encode(x, e, system)
    right = engine.encode(-x, e, system)
    found = engine.multiply(left, right, system)[..., :3]
    for plane, p in zip(found, system.moduli, strict=True):
        exact = -(2**14) * k
        assert (plane == (exact + p // 2) % p - p // 2).all()


@EVERY_WAY
def test_the_calls_of_a_product_by_stages(cuda, monkeypatch):
    monkeypatch.setattr("twom_dist.kernels.cuda.engine.fits", lambda *_: False)
    A = spread_matrix(40, 30, seed=1)
    device = cuda.device
    td.gemm(A, A, op_b="C", num_moduli=16)
    calls = Counter(device.launched)
    # All products at once, nothing waited for.
    products = launches_of_products(device)
    assert calls == {
        **{"largest_exponents": 1, "sums_and_extremes": 1, "choose_exponents": 2},
        **{"encode": 2, **dict.fromkeys(products, 1), "decode": 1},
        **{"mark_nonfinite": 1, "fill_nonfinite": 1, "memset": 1},
    }
    device.launched.clear()
    td.herk(A, num_moduli=16)
    calls = Counter(device.launched)
    assert (calls["encode"], calls[products[0]]) == (1, 1)
    assert calls["combine"] == len(products) - 1
    assert calls["close_diagonal"] == 1
    assert calls["synchronize"] == 0


@pytest.mark.parametrize("engine", [75, 90, 100, 103], indirect=True)
def test_every_kernel_runs(cuda):
    for routine, arrays, options in every_kernel.calls_of_every_kernel():
        expected = on_cpu(routine, *arrays, **options)
        np.testing.assert_array_equal(routine(*arrays, **options), expected)
    a = da.from_array(np.arange(99.0).reshape(9, 11), chunks=5)
    td.gemm(a, a, op_b="T").compute(scheduler="sync")
    every_kernel.add_sums(cuda, np.eye(5), np.zeros(5, np.int32))
    own = tuning.tuning_for(cuda.device.capability())
    others = {f"multiply_{own.element}", "synchronize", "memset", "send", "fetch"}
    launched = set(cuda.device.launched) - others
    assert launched == every_kernel.kernels_of(own)


def test_a_left_operand_is_the_right_one_without_a_copy(engine):
    system = residue_system("2m", 4)
    x, e = spread_matrix(5, 6, seed=1), np.full(5, 9, np.int32)
    left = engine.encode(x, e, system)
    right = engine.encode(x, e, system, conjugate=True)
    twin = engine.reorder(left, system.conjugate_planes)
    assert twin.planes is left.planes
    assert (twin.residues() == right.residues()).all()
    whole = engine.multiply(left, right, system)
    assert whole.shape == (8, 5, 16)
    for options in ({}, {"hermitian": True}):
        found = engine.multiply(left, twin, system, **options)
        assert (found == whole)[..., :5].all()


@pytest.mark.parametrize("order", [(80, 90), (90, 100), (100, 80)])
def test_panels_of_a_tile_on_devices_of_two_kinds(cuda, order, monkeypatch):
    A = random_matrix(300, 60, "complex128", 1.0, 1)
    multiply = cuda.multiply

    def one_after_the_other(left, right, system, before, **options):
        cuda.device._capability = order[before is not None]
        return multiply(left, right, system, before, **options)

    monkeypatch.setattr(cuda, "multiply", one_after_the_other)
    a = da.from_array(A, chunks=(300, 30))
    for uplo in ("full", "lower", "upper"):
        with dask.config.set({"twom-dist.panel-bytes": 1}):
            found = td.herk(a, num_moduli=3, uplo=uplo).compute(scheduler="sync")
        assert same_bits(found, on_cpu(td.herk, A, num_moduli=3, uplo=uplo))


@FUSED_OR_NOT
def test_long_rows_derive_what_follows_from_other_products(cuda):
    hermitian, real = residue_system("2m", 16), residue_system("real", 16)
    hopper = HostDevice(cuda.device.kernels, 90)
    assert not deriving_pays(hopper, hermitian, 1024, 1024)
    assert deriving_pays(hopper, hermitian, 1024, 4096)
    assert not deriving_pays(hopper, residue_system("3m", 15), 1024, 4096)
    assert not deriving_pays(hopper, real, 1024, 1 << 20)
    A = random_matrix(20, 14300, "complex128", 1.0, 1)  # beyond a block's memory
    found = td.herk(A, num_moduli=3)
    assert Counter(cuda.device.launched)["combine"] == 1
    assert same_bits(found, on_cpu(td.herk, A, num_moduli=3))


@EVERY_WAY
@cases("triangle", ["lower", "upper"])
@cases("choice", [("2m", 16), ("3m", 15), ("4m", 3), ("eisenstein", 3)])
def test_a_triangle_of_what_follows_from_other_products(engine, choice, triangle):
    system, n = residue_system(*choice), 41
    x, e = spread_matrix(n, 70, seed=1), np.full(n, 20, np.int32)
    left = engine.encode(x, e, system)
    right = engine.encode(x, e, system, conjugate=True)
    args, wanted = (left, right, system), np.tri(n, dtype=bool)
    whole = engine.multiply(*args)
    found = engine.multiply(*args, hermitian=True, triangle=triangle)
    wanted = wanted if triangle == "lower" else wanted.T
    assert (found == whole)[..., :n][:, wanted].all()
    expected = engine.add_residues(whole, whole, system)
    for added in add_both_ways(engine, *args, found, hermitian=True, triangle=triangle):
        assert (added == expected)[..., :n][:, wanted].all()


@EVERY_WAY
def test_what_no_triangle_needs_is_not_made(engine):
    """Of three squares a side, those of one triangle; of cuBLAS, what is derived."""
    system, n = residue_system("2m", 2), 530
    x, e = spread_matrix(n, 9, seed=1), np.full(n, 20, np.int32)
    left = engine.encode(x, e, system)
    right = engine.encode(x, e, system, conjugate=True)
    untouched = np.frombuffer(bytes([POISON]), np.int8)[0]
    other = {"lower": np.s_[:, :256, 512:], "upper": np.s_[:, 512:, :256]}
    for triangle, beyond in other.items():
        found = engine.multiply(left, right, system, hermitian=True, triangle=triangle)
        made = [(plane != untouched).any() for plane in found[beyond]]
        fused = launches_of_products(engine.device)[0] != "multiply_int8"
        assert made == [not fused and q.mirror is None for q in system.products]


@EVERY_WAY
@pytest.mark.parametrize("uplo", ["full", "upper"])
@pytest.mark.parametrize("routine", [td.herk, td.syrk])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_squares_of_one_triangle_are_multiplied(
    cuda, dtype, routine, uplo, monkeypatch
):
    monkeypatch.setattr(tuning, "SMALLEST_UPDATE_TILE", 256)
    A = random_matrix(530, 9, dtype, 1.0, 1)  # three squares of 256 a side
    options = {"uplo": uplo, "num_moduli": 2}
    found = routine(A, **options)
    calls = Counter(cuda.device.launched)
    products = launches_of_products(cuda.device)
    if len(products) == 1:
        assert (calls[products[0]], calls["decode_and_close"], calls["combine"]) == (
            1,
            1,
            0,
        )
    elif routine is td.syrk or dtype == "float64":
        assert calls["decode"] == 6  # no half form: tiles of one triangle
    assert same_bits(found, on_cpu(routine, A, **options))


@FUSED_OR_NOT
def test_products_in_a_row_leave_nothing_behind(cuda):
    A = spread_matrix(20, 30, seed=1)
    encoded_tiles.clear()
    for _ in range(5):
        td.gemm(A, A, op_b="C")
        td.her2k(A, A)
    assert encoded_tiles.nbytes == len(encoded_tiles) == 0


def test_the_working_memory_of_a_large_product():
    system = residue_system("2m", 16)
    shape = (16384, 16384, 16384)
    needed = workspace.working_bytes(system, shape, workspace.sums_bytes(90))
    assert needed == 97 << 28  # 32 planes of each side, 32 residues, marks
    assert workspace.sums_bytes(80) == 0
    sums = workspace.sums_bytes(100)
    assert workspace.working_bytes(system, shape, sums) == needed + sums
