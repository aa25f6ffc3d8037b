"""The requantise kernel against exact integers."""

import numpy as np
import pytest

from tests.support.cases import cases
from twom_dist.moduli import available_moduli, make_system, residue_system

METHODS = ("2m", "3m", "hybrid", "eisenstein", "real")


def symmetric(x: np.ndarray, p: int) -> np.ndarray:
    """Symmetric residues of int64, as int8."""
    return ((x + p // 2) % p - p // 2).astype(np.int8)


def reduced(sums, system, old=None) -> np.ndarray:
    moduli = [product.p for product in system.products]
    total = sums.astype(np.int64) + (0 if old is None else old)
    planes = zip(total, moduli, strict=True)
    return np.array([symmetric(plane, p) for plane, p in planes])


def boundary_sums(p: int) -> np.ndarray:
    """Both ends of int32, around every power of two, and around ties modulo p."""
    ends = [-(2**31), 2**31 - 1, 0, 2**30, -(2**30), 2**16 * 127 * 127]
    ends += [s * 2**b for b in range(31) for s in (1, -1)]
    ties = [
        s * (t * p + p // 2) for t in (0, 1, 2**20, (2**31 - p) // p) for s in (1, -1)
    ]
    near = np.arange(-300, 301)
    x = np.array(ends + ties)[:, np.newaxis] + near
    return np.clip(x, -(2**31), 2**31 - 1).astype(np.int32)


def every_modulus() -> list[int]:
    return sorted({p for method in METHODS for p, _ in available_moduli(method)})


@cases("p", every_modulus())
def test_sums_at_every_boundary(calls, p):
    system = make_system("real", ((p, "real"),))
    sums = boundary_sums(p)[np.newaxis]
    out = np.empty(sums.shape, np.int8)
    calls.requantise(sums, system, out)
    assert (out == reduced(sums, system)).all()
    low, high = -(p // 2), (p - 1) // 2
    for old in (low, high):
        out[:] = old
        calls.requantise(sums, system, out, old=out)
        assert (out == reduced(sums, system, old)).all()


@pytest.mark.parametrize("p", [3, 97, 241, 256])
def test_sums_of_float32_are_exact_integers(calls, p):
    system = make_system("real", ((p, "real"),))
    sums = np.clip(boundary_sums(p)[np.newaxis], 1 - 2**24, 2**24 - 1)
    out = np.empty(sums.shape, np.int8)
    for old in (None, np.full_like(out, 1)):
        calls.requantise(sums.astype(np.float32), system, out, old=old)
        assert (out == reduced(sums, system, old)).all()


@pytest.mark.parametrize("blocks", [1, 2])
def test_bytes_are_widened(calls, blocks):
    """Every one, of planes that lie apart."""
    x = np.resize(np.arange(-128, 128), (2, 5, 64)).astype(np.int8)
    planes = np.zeros((4, 5, 544), np.int8)[::2, :, 16:528]
    planes[...] = np.tile(x, 8)
    found = calls.widen(planes, blocks)
    assert (found.dtype, found.shape) == (np.float16, planes.shape)
    assert found.tobytes() == planes.astype(np.float16).tobytes()


@cases("add", [None, "in place", "out of place"])
@cases("n", [1, 2, 3, 4, 5, 8, 31, 64, 70, 127, 132])
@cases("m", [1, 3, 17, 70])
def test_ragged_batches(calls, m, n, add):
    system = residue_system("2m", 3)
    rng = np.random.default_rng([m, n])
    count = system.num_products
    sums = rng.integers(-(2**31), 2**31, (count, m, n), dtype=np.int32)
    old = rng.integers(-128, 128, (count, m, n))
    old = np.array(
        [symmetric(x, q.p) for x, q in zip(old, system.products, strict=True)]
    )
    for pad in (0, 4):
        out = old.copy()
        given = {None: None, "in place": out, "out of place": old}[add]
        calls.requantise(sums, system, out, old=given, blocks=1 + pad, pad=pad)
        assert (out == reduced(sums, system, old if add else None)).all()


def test_a_batch_that_is_not_every_product(calls):
    system = residue_system("3m", 4)
    rng = np.random.default_rng(0)
    sums = rng.integers(-(2**30), 2**30, (3, 9, 41), dtype=np.int32)
    products = np.array([10, 0, 5], np.int32)
    out = rng.integers(-128, 128, (12, 9, 41), np.int8)
    expected = out.copy()
    calls.requantise(sums, system, out, products=products)
    for z, q in enumerate(products):
        expected[q] = symmetric(sums[z].astype(np.int64), system.products[q].p)
    assert (out == expected).all()
