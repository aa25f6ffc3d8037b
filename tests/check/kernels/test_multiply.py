"""The CPU's products of planes, by AMX, the microkernel and an int8 GEMM: exact."""

from contextlib import nullcontext

import numpy as np
import pytest

from tests.support.amx import run_amx
from tests.support.contract.products import *  # noqa: F403
from tests.support.pipeline import add_both_ways
from tests.support.strategies import random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.encode import encode
from twom_dist.kernels.cpu.encoded import CpuEncoded, as_groups
from twom_dist.kernels.cpu.products import blocks, multiply, packed
from twom_dist.kernels.cpu.products.amx_steps import CONFIGURATION
from twom_dist.kernels.cpu.tuning import BLOCK
from twom_dist.moduli import ResidueSystem, residue_system

BEYOND = BLOCK + 3  # more than one block of the GEMM


@pytest.fixture(params=["amx", "microkernel", "gemm", "loops"], autouse=True)
def way(request, monkeypatch):
    """Take each way, on every machine."""
    tiles = CONFIGURATION if request.param == "amx" else None
    is_taken = request.param in ("amx", "microkernel")
    for module in (encode, multiply):
        monkeypatch.setattr(module, "has_vnni", lambda: is_taken)
    monkeypatch.setattr(multiply, "select_tiles", lambda: tiles)
    smallest = 0 if request.param == "gemm" else 1 << 40
    monkeypatch.setattr(blocks, "SMALLEST_GEMM", smallest)
    with nullcontext() if tiles is None else run_amx():
        yield request.param


@pytest.fixture
def engine(monkeypatch):
    """The CPU's, with blocks that small products have several of."""
    monkeypatch.setattr(packed, "BLOCK_BYTES", 64 * 32)
    return get_engine("cpu")


def encode_integers(x, system):
    return get_engine("cpu").encode(x, np.zeros(len(x), np.int32), system)


def as_planes(residues: np.ndarray) -> CpuEncoded:
    """Put residues (planes, rows, k) into an operand."""
    count, rows, k = residues.shape
    return CpuEncoded(rows, k, as_groups(residues), tuple(range(count)))


def assert_exact(
    found: np.ndarray,
    left: CpuEncoded,
    right: CpuEncoded,
    system: ResidueSystem,
    wanted: np.ndarray | bool = True,
) -> None:
    """Compare with sums in float64, exact below 2^53, times what was added up."""
    a, b = left.residues().astype(float), right.residues().astype(float)
    for plane, q in zip(found, system.products, strict=True):
        exact = (a[q.left] @ b[q.right].T).astype(np.int64)
        expected = (exact + q.p // 2) % q.p - q.p // 2
        assert ((plane[:, : right.rows] == expected) | ~np.array(wanted)).all()


def test_planes_hold_residues():
    """Nine planes or more, and entries of several runs."""
    system = residue_system("real", 9)
    x = np.random.default_rng(0).integers(-(2**20), 2**20, (17, 310)).astype(float)
    x[0, :2] = 128, -128
    found = encode_integers(x, system).residues()
    for plane, own in zip(system.planes, found, strict=True):
        assert (own == (x + plane.p // 2) % plane.p - plane.p // 2).all()


@pytest.mark.parametrize(
    "shape", [(BEYOND, 5, 430), (5, BEYOND, 430), (BEYOND, BEYOND, 3), (40, 3, 8200)]
)
@pytest.mark.parametrize("way", ["microkernel", "gemm", "loops"], indirect=True)
def test_products_of_several_blocks_are_those_of_int64(shape):
    assert_products(*shape)


def assert_products(m, n, k):
    system = residue_system("hybrid", 21)
    x, y = random_matrix(m, k, "complex64", 1.0, 1), random_matrix(n, k, seed=2)
    left, right = encode_integers(x * 1e6, system), encode_integers(y * 1e6, system)
    assert_exact(get_engine("cpu").multiply(left, right, system), left, right, system)


@pytest.mark.parametrize("shape", [(1, 1), (17, 3), (15, 130), (33, 64), (1, 2100)])
@pytest.mark.parametrize("choice", [("2m", 1), ("2m", 8), ("hybrid", 30), ("real", 49)])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("way", ["microkernel", "gemm"], indirect=True)
def test_planes_are_those_of_the_reference(choice, shape, across):
    system = residue_system(*choice)
    dtype = "float64" if choice[0] == "real" else "complex128"
    x = random_matrix(*shape, dtype, 4.0, 1)
    x = np.asfortranarray(x) if across else x
    # Nearly all the bits that there are.
    largest = get_engine("cpu").largest_exponents(x)
    exponents = np.int32(system.part_bits - 2 - system.hexagonal) - largest
    planes = [
        get_engine(name).encode(x, exponents, system).residues()
        for name in ("cpu", "reference")
    ]
    assert (planes[0] == planes[1]).all()


@pytest.mark.parametrize("value", [-128, 127, -1])
def test_residues_at_their_ends_are_multiplied(value):
    system = residue_system("real", 20)
    rng = np.random.default_rng(1)
    ends = rng.choice(np.array([-128, 127, value], np.int8), (2, 20, 19, 70))
    # Whatever lies in the planes is multiplied.
    ends[:, :, 0], ends[:, :, 1] = value, -128
    left, right = map(as_planes, ends)
    assert_exact(get_engine("cpu").multiply(left, right, system), left, right, system)


@pytest.mark.parametrize("longest", [4096, 1 << 17])
@pytest.mark.parametrize("choice", [("real", 1), ("2m", 1)])
@pytest.mark.parametrize("k", [2**17 - 3])
def test_long_sums_are_those_of_int64(monkeypatch, choice, k, longest):
    """Sums of one sign, the largest there are, in one piece as well: near 2^31."""
    monkeypatch.setattr(packed, "LONGEST_SUM", longest)
    system = residue_system(*choice)
    p, low = system.moduli[0], -(system.moduli[0] // 2)
    rng = np.random.default_rng(k)
    x, y = rng.integers(low, -low, (2, 19, k)).astype(float)
    x[0], x[1], y[0], y[1] = low, -1, low, -low - 1
    left, right = (encode_integers(t + 0j, system) for t in (x, y))
    found = get_engine("cpu").multiply(left, right, system)
    exact = (x @ y.T).astype(np.int64)
    expected = (exact + p // 2) % p - p // 2
    assert all((plane[:, :19] == expected).all() for plane in found)


def test_large_sums_of_every_residue_are_reduced():
    """Sums up to 2^25, in every residue class of every modulus."""
    system = residue_system("real", 49)
    large, n = 2**11, 256
    left, right = np.full((49, 1, large + n), -1), np.zeros((49, n, large + n))
    low = -(np.array(system.moduli) // 2)[:, np.newaxis, np.newaxis]
    left[..., :large] = right[..., :large] = low
    right[..., large:] = np.tri(n, k=-1)
    found = get_engine("cpu").multiply(
        *(as_planes(t.astype(np.int8)) for t in (left, right)), system
    )
    for plane, p in zip(found, system.moduli, strict=True):
        exact = large * (p // 2) ** 2 - np.arange(n)
        assert (plane[0] == (exact + p // 2) % p - p // 2).all()


@pytest.mark.parametrize("shape", [(33, 65, 4100), (5, 50, 9), (BEYOND, 20, 3)])
def test_what_is_added_to_stays_as_it_is(monkeypatch, shape):
    """Sums along k are cut, too: the first piece reads the old ones, others the new."""
    monkeypatch.setattr(blocks, "LARGEST_K", 1 << 11)
    monkeypatch.setattr(packed, "LONGEST_SUM", 1 << 11)
    m, n, k = shape
    engine, system = get_engine("cpu"), residue_system("2m", 2)
    x, y = (
        encode_integers(random_matrix(rows, k, seed=1) * 1e5, system) for rows in (m, n)
    )
    before = engine.multiply(x, y, system)
    twice = [
        as_planes(np.concatenate([t.residues(), t.residues()], axis=2)) for t in (x, y)
    ]
    for found in add_both_ways(engine, x, y, system, before):
        assert_exact(found, *twice, system)
