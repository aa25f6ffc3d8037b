"""What products allocate of a device that others use as well, and how they are cut."""

import gc

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.cuda import host_device
from tests.support.expect import raises, same_bits
from tests.support.pipeline import run_stages
from tests.support.stacks import random_stack
from tests.support.strategies import random_matrix
from twom_dist.errors import KernelError, MemoryLimitError
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda import workspace
from twom_dist.kernels.cuda.tuning import tuning_for
from twom_dist.moduli import residue_system
from twom_dist.run import prepared

SYSTEM = residue_system("2m", 2)


def workspace_bytes(value):
    return dask.config.set({"twom-dist.workspace-bytes": value})


@host_device.FUSED_OR_NOT
def test_a_workspace_limit_changes_no_bit_and_holds(cuda):
    A, B = random_matrix(300, 550), random_matrix(550, 280)
    device = cuda.device
    with workspace_bytes(10**9):
        whole = td.gemm(A, B, num_moduli=8)
    largest = max(device.allocated)
    device.allocated.clear()
    with workspace_bytes(6 << 20):
        assert same_bits(td.gemm(A, B, num_moduli=8), whole)
    assert max(device.allocated) < min(largest, 2 << 20)
    with workspace_bytes(1000), raises(MemoryLimitError, "workspace"):
        td.gemm(A, B)


@host_device.FUSED_OR_NOT
def test_a_product_takes_of_what_is_free(cuda):
    A, B = random_matrix(40, 1000), random_matrix(1000, 40)
    device = cuda.device
    whole = td.gemm(A, B, num_moduli=2)
    assert device.asked == 0
    largest = max(device.allocated)
    device.allocated.clear()
    device.free, device.total = 400 << 10, 8 << 20
    prepared._prepared.clear()  # as on another device
    assert same_bits(td.gemm(A, B, num_moduli=2), whole)
    assert max(device.allocated) <= largest // 4


@cases(("stack", "lazy"), [((), 0), ((4,), 0), ((4,), 1)])
def test_a_full_device_is_tried_with_smaller_tiles(cuda, stack, lazy):
    A, B = random_matrix(40, 1000).reshape(*stack, -1, 1000), random_matrix(1000, 40)
    device = cuda.device
    device.total, device.room = 8 << 20, 1 << 62
    device.allocated.clear()
    whole = td.gemm(A, B, num_moduli=2)
    device.room = max(device.allocated) - 1
    given = da.from_array(A, chunks=-1) if lazy else A
    found = td.gemm(given, B, num_moduli=2)
    assert same_bits(found.compute(scheduler="sync") if lazy else found, whole)
    device.room = 100
    with raises(MemoryLimitError, "device-memory"):
        td.gemm(A, B, num_moduli=2)


def test_products_in_a_row_leave_nothing_behind(cuda):
    A = random_matrix(20, 30)
    for _ in range(5):
        td.gemm(A, A, op_b="C")
        td.her2k(A, A)
    gc.collect()
    assert not cuda.device.guarded


def test_what_kernels_do_not_read_is_refused(engine):
    x = random_matrix(20, 15, "float64")[:, :6].view("complex128")
    with raises(KernelError, "strides"):
        engine.measure(x, 20)


def test_the_planes_in_float16_are_counted(host_kernels):
    """They are all that is allocated beside what int8 needs."""
    system, shape = residue_system("2m", 5), (40, 70, 1300)
    x, y = random_matrix(40, 1300, seed=1), random_matrix(70, 1300, seed=2)
    needed = []
    for capability in (100, 103):
        engine = host_device.host_engine(host_kernels, capability)
        run_stages(engine, x, y, system)
        sums, element = workspace.sums_bytes(capability), tuning_for(capability).element
        counted = workspace.working_bytes(system, shape, sums, element=element)
        needed.append((sum(engine.device.allocated), counted))
    found, counted = np.subtract(needed[1], needed[0])
    assert found == counted > 0


@pytest.mark.parametrize("engine", [100, 103], indirect=True)
@cases("limit", [4, 1 << 17, 1 << 18, 1 << 22])
def test_sums_are_cut(engine, limit):
    """By products, by matrices, and by rows where not even one matrix fits."""
    for stack, m, n, k in (((), 300, 5, 1100), ((3,), 66, 17, 130)):
        x, y = (random_stack(stack, t, k, "complex128", t) for t in (m, n))
        with workspace_bytes(limit):  # of which sums may take a quarter
            found = run_stages(engine, x, y, SYSTEM)["C"]
        assert same_bits(found, run_stages(get_engine("cpu"), x, y, SYSTEM)["C"])


def test_a_piece_of_a_stack_fits_the_workspace_and_a_grid(engine):
    def pieces(count, limit, *shape):
        found = []
        with workspace_bytes(limit):
            engine.run_stack(found.append, count, SYSTEM, shape)
        return [(piece.start, piece.stop) for piece in found]

    assert pieces(70000, 1 << 40, 1, 1, 1) == [(0, 65535), (65535, 70000)]
    few = (1 << 20) // (4 * 128 * 128 + 5 * 64 * 64)
    assert pieces(few + 1, 1 << 20, 64, 64, 128) == [(0, few), (few, few + 1)]
    assert pieces(2, 1 << 20, 1000, 1000, 1000) == [(0, 1), (1, 2)]


@host_device.EVERY_WAY
@pytest.mark.parametrize("name", ["herk", "syrk", "her2k"])
def test_tiles_of_updates_and_pieces_of_stacks(cuda, name):
    routine = getattr(td, name)
    for stack in ((), (3,)):
        given = [random_stack(stack, 37, 23, "complex128", s) for s in (1, 2, 3)]
        given, c = given[: 1 + name.endswith("2k")], random_stack(stack, 37, 37, "D", 4)
        for uplo in ("full", "lower", "upper"):
            options = {"uplo": uplo, "num_moduli": 3, "alpha": -0.5, "beta": 2}
            with host_device.small_pieces():
                found = routine(*given, c, **options)
            assert same_bits(found, routine(*given, c, engine="cpu", **options))
