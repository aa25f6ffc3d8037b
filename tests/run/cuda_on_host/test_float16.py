"""Products in float16, on a device whose tensor cores are slow at int8: equal bits."""

from itertools import product as every

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cuda.host_device import host_engine
from tests.support.cuda.on_cpu import on_cpu
from tests.support.pipeline import add_both_ways, dtype_for, run_stages
from tests.support.stacks import random_stack
from tests.support.strategies import random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda import multiply, tuning, workspace
from twom_dist.kernels.cuda.encoded import CudaEncoded
from twom_dist.kernels.cuda.int8_gemm import largest_k
from twom_dist.moduli import available_moduli, make_system, residue_system

SYSTEMS = (
    *(("2m", 16), ("3m", 15), ("hybrid", 24), ("eisenstein", 16)),
    *(("real", 3), ("real", 15)),
)
SHAPES = [(1, 1, 1), (5, 18, 7), (33, 3, 2500), (2, 70, 8000)]


@pytest.fixture
def engine(host_kernels):
    """The engine of such a device."""
    return host_engine(host_kernels, 103)


@pytest.mark.parametrize(
    ("choice", "shape"), [(x, SHAPES[i % 4]) for i, x in enumerate(SYSTEMS)]
)
def test_every_stage_is_that_of_the_cpu(engine, choice, shape):
    """Of modulus 256, 8000 columns are eight chunks."""
    (m, n, k), system = shape, residue_system(*choice)
    dtype = dtype_for(choice[0])
    x, y = random_matrix(m, k, dtype, 1.0, 1), random_matrix(n, k, dtype, 1.0, 2)
    found = run_stages(engine, x, y, system, conjugate=True)
    expected = run_stages(get_engine("cpu"), x, y, system, conjugate=True)
    for name, value in expected.items():
        assert same_bits(found[name], value), name
    columns = largest_k(system.moduli, "float16")
    calls = engine.device.launched.count("multiply_float16")
    assert -(-k // 7280) <= calls <= -(-k // columns) * system.num_products


@pytest.mark.parametrize("sums_bytes", [1, 1 << 15, 1 << 20])
def test_rows_matrices_and_products_of_a_call(engine, sums_bytes, monkeypatch):
    monkeypatch.setattr(multiply, "sums_bytes", lambda _: sums_bytes)
    system = residue_system("3m", 3)
    for stack, m, n, k in ((1, 300, 5, 1100), (3, 66, 17, 130)):
        x = random_stack((stack,), m, k, "complex128", 1)
        y = random_stack((stack,), n, k, "complex128", 2)
        found = run_stages(engine, x, y, system)
        assert same_bits(found["C"], run_stages(get_engine("cpu"), x, y, system)["C"])


@pytest.mark.parametrize("routine", [td.herk, td.syrk, td.her2k])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_updates(cuda, routine, dtype):
    matrices = [random_matrix(67, 1200, dtype, 1.0, s) for s in range(2)]
    matrices = matrices[: 2 if routine is td.her2k else 1]
    for uplo in ("full", "upper"):
        options = {"uplo": uplo, "num_moduli": 3}
        found = routine(*matrices, **options)
        assert same_bits(found, on_cpu(routine, *matrices, **options))


@pytest.mark.parametrize("p", [29, 97, 241, 256])
def test_extreme_residues_at_the_limit_of_a_chunk(engine, p):
    """The device refuses sums that float32 does not hold."""
    system, half = make_system("real", ((p, "real"),)), p // 2
    k = largest_k([p], "float16")
    assert k * half**2 < 1 << 24 <= (k + 16) * half**2
    for columns, (a, b) in every((k, 2 * k + 5), ((-half, -half), (half - 1, -half))):
        planes = engine.device.filled((2, 1, 64, -(-columns // 128) * 128), np.int8)
        planes[0, :, :3, :columns], planes[1, :, :3, :columns] = a, b
        left, right = (CudaEncoded(3, columns, plane, (0,)) for plane in planes)
        found = engine.multiply(left, right, system)
        assert (found[0, :, :3] == (a * b * columns + half) % p - half).all()
        for twice in add_both_ways(engine, left, right, system, found):
            exact = 2 * a * b * columns
            assert (twice[0, :, :3] == (exact + half) % p - half).all()


def test_no_modulus_is_too_large_for_a_chunk():
    methods = ("2m", "3m", "4m", "hybrid", "eisenstein", "real")
    moduli = {p for method in methods for p, _ in available_moduli(method)}
    assert min(largest_k([p], "float16") for p in moduli) == 1008
    assert {largest_k([p], "int8") for p in moduli} == {1 << 16}


def test_the_buffer_is_counted(host_kernels):
    """Planes in float16 are all that is allocated beside what int8 needs."""
    system, shape = residue_system("2m", 5), (40, 70, 1300)
    x, y = random_matrix(40, 1300, seed=1), random_matrix(70, 1300, seed=2)
    needed = {}
    for capability in (100, 103):
        engine = host_engine(host_kernels, capability)
        run_stages(engine, x, y, system)
        sums = workspace.sums_bytes(capability)
        element = tuning.tuning_for(capability).element
        counted = workspace.working_bytes(system, shape, sums, element=element)
        needed[capability] = sum(engine.device.allocated), counted
    found, counted = np.subtract(needed[103], needed[100])
    assert found == counted > 0
