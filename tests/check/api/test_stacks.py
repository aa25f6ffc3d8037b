"""Stacks in the public routines: every matrix has the bits that it has alone."""

import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.stacks import assert_each_is_as_alone, random_stack


@cases("dtype", ["float32", "complex128"])
@cases("accuracy", ["componentwise", "normwise"])
def test_matrices_of_every_spread_take_their_own_moduli(dtype, accuracy):
    """Over rows whose cosines lie anywhere between 1 and nothing."""
    rng = np.random.default_rng(3)
    spread = rng.uniform(0, 4, (60, 1, 1))
    a = np.exp(spread * rng.standard_normal((60, 7, 40))).astype(dtype)
    ways = {td.explain(td.syrk, x).decided_by for x in a}
    assert {"sums", "octaves", "pairs"} <= ways
    a[5, 1], a[9, 0, 0] = 0, np.nan
    for name, *given in (
        ("gemm", a, a[::-1].swapaxes(1, 2)),
        ("syrk", a),
        ("syr2k", a[:20], a[::-1][:20]),
    ):
        found = getattr(td, name)(*given, accuracy=accuracy)
        assert_each_is_as_alone(found, name, *given, accuracy=accuracy)


def test_axes_in_front_broadcast(engine_name):
    a = random_stack((3, 1), 4, 5, "complex128", 1)
    b = random_stack((2,), 5, 3, "complex128", 2)
    c = random_stack((3, 2), 4, 3, "complex128", 3)
    options = {"num_moduli": 4, "beta": 2, "engine": engine_name}
    found = td.gemm(a, b, c, **options)
    both = (np.broadcast_to(x, (3, 2, *x.shape[-2:])) for x in (a, b))
    assert_each_is_as_alone(found, "gemm", *both, c, **options)
    out = np.empty((3, 2, 4, 3), complex)
    assert td.gemm(a, b, c, out=out, **options) is out
    assert same_bits(out, found)


# Too large to be multiplied together, in memory and in a task.
@cases("m", [520, 2100])
def test_large_matrices_are_computed_alone(m):
    a = random_stack((2,), m, 3, "complex128", 1)
    b, options = random_stack((2,), 3, 5, "complex128", 2), {"num_moduli": 9}
    found = td.gemm(a, b, **options)
    assert_each_is_as_alone(found, "gemm", a, b, **options)
    lazy = td.gemm(da.from_array(a, chunks=(1, 500, 2)), b, **options)
    assert same_bits(lazy.compute(scheduler="sync"), found)
    components = td.twofold.gemm(a[:, :9], b)
    alone = [td.twofold.gemm(x, y) for x, y in zip(a[:, :9], b, strict=True)]
    assert same_bits(np.array(components), np.array(alone).swapaxes(0, 1))


def test_native_products_are_numpys():
    a = random_stack((3,), 4, 5, "complex128", 1)
    found = td.gemm(a, a, op_b="T", method="blas")
    assert_each_is_as_alone(found, "gemm", a, a.swapaxes(1, 2), method="blas")
    assert np.allclose(found, a @ a.swapaxes(1, 2), rtol=1e-14)


@cases("shape", [(0, 3, 2), (2, 0, 2), (2, 3, 0), (0, 2050, 3)])
@cases("options", [{}, {"num_moduli": 9}])
def test_stacks_of_nothing(shape, options):
    for a in (np.ones(shape, "c8"), da.ones(shape, dtype="c8", chunks=500)):
        found = td.gemm(a, np.ones((shape[2], 4), "c8"), **options)
        assert found.shape == (*shape[:2], 4)
        assert found.dtype == np.asarray(found).dtype == "c8"
        assert not np.asarray(found).any()
    assert np.asarray(td.syrk(a)).shape == (*shape[:2], shape[1])
