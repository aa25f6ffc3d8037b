"""Stacks of matrices on the CUDA engine: the bits of the CPU's, alone."""

from collections import Counter

import dask
import numpy as np
import pytest

from tests.gpu.ways import take
from tests.support.bits import same_bits
from tests.support.cuda.host_device import FUSED_OR_NOT, launches_of_products
from tests.support.pipeline import add_both_ways, dtype_for, run_stages
from tests.support.stacks import assert_each_is_as_alone, compute, random_stack
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda import multiply
from twom_dist.kernels.cuda.launch import LARGEST_STACK
from twom_dist.moduli import residue_system

LAYOUTS = {
    "C": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2),
    "every second": lambda x: np.repeat(x, 2, axis=0)[::2],
}


@FUSED_OR_NOT
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "choice", [("2m", 3), ("3m", 2), ("hybrid", 21), ("real", 3), ("eisenstein", 2)]
)
def test_every_stage_is_that_of_the_cpu(engine, choice, layout):
    (kind, count), lay = choice, LAYOUTS[layout]
    system, dtype = residue_system(kind, count), dtype_for(kind)
    for stack, m, n, k in ((1, 1, 1, 1), (3, 5, 18, 7), (2, 66, 17, 130)):
        x, y = (
            random_stack((stack,), m, k, dtype, 1),
            random_stack((stack,), n, k, dtype, 2),
        )
        y[-1, 0, 0] = np.inf
        found = run_stages(engine, lay(x), lay(y), system, conjugate=True)
        expected = run_stages(get_engine("cpu"), x, y, system, conjugate=True)
        for name, value in expected.items():
            assert same_bits(found[name], value), name


@FUSED_OR_NOT
@pytest.mark.parametrize("hermitian", [False, True])
def test_residues_of_a_stack_are_added(engine, hermitian, monkeypatch):
    """By cuBLAS some rows of a matrix at a time."""
    monkeypatch.setattr(multiply, "sums_bytes", lambda _: 1 << 14)
    system, n = residue_system("2m", 3), 70
    x, e = random_stack((2,), n, 5, "complex128", 1), np.full((2, n), 9, np.int32)
    left, right = (engine.encode(x, e, system, conjugate=t) for t in (False, True))
    before = engine.multiply(left, right, system)
    expected = engine.add_residues(before, before, system)
    for found in add_both_ways(
        engine, left, right, system, before, hermitian=hermitian
    ):
        assert (found == expected)[..., :n].all()


@pytest.mark.parametrize("way", ["wgmma", "mma"])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_products_are_those_of_gemm(cuda, way, dtype, monkeypatch):
    take(way, cuda.device.capability(), monkeypatch)
    a, c = random_stack((3,), 9, 5, dtype, 1), random_stack((3,), 9, 4, dtype, 3)
    b = np.ascontiguousarray(random_stack((3,), 4, 5, dtype, 2)).swapaxes(1, 2)
    a[0, 1, 2], b[-1, 0, 1] = np.nan, -np.inf
    options = {"num_moduli": 4, "alpha": -1.5, "beta": 0.5}
    found = compute("gemm", a, b, c, **options)
    assert_each_is_as_alone(found, "gemm", a, b, c, engine="cpu", **options)


@FUSED_OR_NOT
@pytest.mark.parametrize("uplo", ["full", "lower", "upper"])
@pytest.mark.parametrize(
    ("name", "dtype", "k"),
    [("herk", "complex64", 33), ("herk", "complex128", 400), ("syrk", "float64", 33)],
)
def test_updates_are_those_of_one_matrix(cuda, name, dtype, k, uplo):
    """Along 400 entries of k products are derived from others."""
    a = random_stack((2,), 67, k, dtype, 1)
    a[1, 3, 4] = np.inf
    options = {"num_moduli": 2, "uplo": uplo}
    found = compute(name, a, **options)
    assert_each_is_as_alone(found, name, a, engine="cpu", **options)
    launched = Counter(cuda.device.launched)
    products = launches_of_products(cuda.device)
    assert all(1 <= launched.pop(x) <= 2 for x in products)
    stages = ["scale_and_encode", "decode_and_close"]
    if name == "herk" and len(products) > 1:
        stages.append("combine")
    assert launched == dict.fromkeys(stages, 1)


@pytest.mark.parametrize("name", ["her2k", "syr2k"])
def test_sums_of_two_products(cuda, name):
    a, b = (random_stack((3,), 5, 7, "complex64", seed) for seed in (1, 2))
    c = random_stack((3,), 5, 5, "complex64", 3)
    a[1, 0, 0] = np.inf
    options = {"num_moduli": 3, "beta": 2.0}
    found = compute(name, a, b, c, **options)
    assert_each_is_as_alone(found, name, a, b, c, engine="cpu", **options)


@FUSED_OR_NOT
def test_sums_of_a_stack_are_cut(engine, monkeypatch):
    """By matrices where they all do not fit, and by rows where not even one does."""
    system = residue_system("2m", 2)
    x, y = (
        random_stack((3,), 300, 9, "complex128", 1),
        random_stack((3,), 5, 9, "complex128", 2),
    )
    expected = run_stages(get_engine("cpu"), x, y, system)
    for sums_bytes in (1, 1 << 15, 1 << 16, 1 << 20):
        monkeypatch.setattr(multiply, "sums_bytes", lambda _, size=sums_bytes: size)
        found = run_stages(engine, x, y, system)
        assert same_bits(found["C"], expected["C"])


def test_a_piece_of_a_stack_fits_the_workspace_and_a_grid(engine):
    system = residue_system("2m", 2)

    def pieces(count, workspace_bytes, *shape):
        found = []
        with dask.config.set({"twom-dist.workspace-bytes": workspace_bytes}):
            engine.run_stack(found.append, count, system, shape)
        return [(piece.start, piece.stop) for piece in found]

    assert pieces(70000, 1 << 40, 1, 1, 1) == [
        (0, LARGEST_STACK),
        (LARGEST_STACK, 70000),
    ]
    few = (1 << 20) // (4 * 128 * 128 + 5 * 64 * 64)
    assert pieces(few + 1, 1 << 20, 64, 64, 128) == [(0, few), (few, few + 1)]
    assert pieces(2, 1 << 20, 1000, 1000, 1000) == [(0, 1), (1, 2)]
