"""Weights of contractions: einsum's "ik,k,kj->ij" is gemm with a diagonal."""

from itertools import permutations

import dask
import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.strategies import random_matrix

M, N, K = 9, 7, 12
OPTIONS = {"method": "2m", "num_moduli": 9}
DTYPES = [
    *(("complex128", "float64"), ("complex128", "complex128"), ("float64", "float64")),
    *(("complex64", "float32"), ("float32", "complex64"), ("complex64", "float64")),
]


def operands(dtype="complex128", kind="float64"):
    a, b = random_matrix(M, K, dtype), random_matrix(K, N, dtype, seed=1)
    w = random_matrix(1, K, kind, seed=2)[0]
    w[:2] = 0.0, -0.0
    return a, b, w


def in_all_orders(given, output, **options):
    """Yield the product of operands, by their letters, in every order."""
    for order in permutations(given):
        text = f"{','.join(order)}->{output}"
        yield order, (text, *[given[x] for x in order]), options


@cases(("dtype", "kind"), DTYPES)
@cases("options", [OPTIONS, {"method": "2m"}])
def test_the_bits_are_those_of_a_diagonal(dtype, kind, options):
    a, b, w = operands(dtype, kind)
    expected = td.gemm(a, b, diag=w, **options)
    for order, call, more in in_all_orders({"ik": a, "k": w, "kj": b}, "ij", **options):
        assert same_bits(td.einsum(*call, **more), expected), order
    turned = td.gemm(b.T, a.T, diag=w, **options)
    assert same_bits(td.einsum("ik,k,kj->ji", a, w, b, **options), turned)
    stack = np.stack([a, 2 * a])
    found = td.einsum("bik,k,jk->bij", stack, w, b.T.copy(), **options)
    assert same_bits(found, td.gemm(stack, b, diag=w, **options))
    out = np.empty_like(expected)
    assert td.einsum("ik,k,kj->ij", a, w, b, out=out, **options) is out
    assert same_bits(out, expected)


def test_several_vectors_are_multiplied_first():
    a = random_matrix(M, K, "complex64")
    b = random_matrix(K, N, "complex64", seed=1)
    w, v = random_matrix(2, K, "float32", seed=2)
    expected = td.gemm(a, b, diag=w * v, **OPTIONS)
    given = {"ik": a, "k": w, "k ": v, "kj": b}
    for order, call, more in in_all_orders(given, "ij", **OPTIONS):
        assert same_bits(td.einsum(*call, **more), expected), order
    # Where opt_einsum's path would multiply A and A^H entry by entry.
    square = td.herk(a, diag=w * v, **OPTIONS)
    for x, y, order in ((a, a.conj(), "ik,k,k,jk"), (a.conj(), a, "jk,k,k,ik")):
        assert same_bits(td.einsum(f"{order}->ij", x, w, v, y, **OPTIONS), square)
    # In double precision, as the result is.
    a = a.astype("complex128")
    double = td.einsum("ik,k,kj,k->ij", a, w, b, v, **OPTIONS)
    assert same_bits(double, td.gemm(a, b, diag=w.astype(float) * v, **OPTIONS))


def test_weights_are_converted_as_operands_are():
    """Real ones are no complex ones, and integers are rounded once."""
    a, b, w = operands()
    large = np.arange(K, dtype="uint64") + (2**63 + 1)
    found = td.einsum("ik,k,kj->ij", a, large, b, **OPTIONS)
    assert same_bits(found, td.gemm(a, b, diag=large.astype(float), **OPTIONS))
    # Of the native product the operands are scaled, and of others the result.
    found = td.einsum("ik,k,kj->ij", a, w, b, method="blas")
    assert np.allclose(found, (a * w) @ b)
    rows = np.linspace(1, 2, M)
    found = td.einsum("i,ik,kj->ij", rows, a, b, **OPTIONS)
    assert np.allclose(found, rows[:, None] * (a @ b), rtol=1e-10)
    a[2, 3] = np.inf
    found = td.einsum("ik,k,kj->ij", a, w, b, **OPTIONS)
    assert same_bits(found, td.gemm(a, b, diag=w, **OPTIONS))


@cases(("dtype", "kind"), [*DTYPES, ("float32", "float64"), ("float64", "int64")])
def test_a_factor_and_its_conjugate_make_an_update(dtype, kind):
    a, _, w = operands(dtype, kind)
    wide = np.result_type(a.dtype, w.dtype)
    routines = [(a, td.syrk), (a.conj(), td.herk)]
    for b, routine in routines if dtype[0] == "c" else routines[:1]:
        if real := routine is td.syrk or kind != "complex128":
            expected = routine(a.astype(wide), diag=w, **OPTIONS)
        for order, call, _ in in_all_orders({"ij": a, "j": w, "kj": b}, "ik"):
            found = td.einsum(*call, **OPTIONS)
            assert not real or same_bits(found, expected), order
        assert np.allclose(found, (a * w) @ b.T, rtol=1e-5, atol=1e-5)


def test_updates_with_weights_of_columns_stacks_and_dask():
    a, b, w = operands()
    found = td.einsum("ji,j,jk->ik", a.T.conj(), w, a.T, **OPTIONS)
    assert same_bits(found, td.herk(a.conj(), diag=w, **OPTIONS))
    stack = np.stack([a, 2 * a])
    found = td.einsum("bij,j,bkj->bik", stack, w, stack.conj(), **OPTIONS)
    assert same_bits(found, td.herk(stack, diag=w, **OPTIONS))
    x, y, z = (da.from_array(x, chunks=5) for x in (a, w, b))
    with td.use(strict=True, **OPTIONS) as used:
        update = da.einsum("ij,j,kj->ik", x, w, x.conj())
        products = [da.einsum("ik,k,kj->ij", x, y, z)]
        products += [np.einsum("ik,k,kj->ij", x, w, b, optimize="auto")]
    assert used.ours == 3
    assert same_bits(update.compute(), td.herk(a, diag=w, **OPTIONS))
    for found in products:
        assert same_bits(found.compute(), td.gemm(a, b, diag=w, **OPTIONS))
        assert not any("mul" in layer for layer in found.dask.layers)
    with dask.config.set({"twom-dist.blas-below": 0}):
        assert same_bits(td.numpy.einsum("ik,k,kj", a, w, b), td.gemm(a, b, diag=w))


def test_networks_weigh_where_a_letter_is_contracted():
    a, b, w = operands()
    c, v = random_matrix(N, 5, seed=3), random_matrix(1, N, "float64", seed=4)[0]
    given = "ik,k,kj,j,jl->il", a, w, b, v, c
    left = td.gemm(a, b, diag=w, **OPTIONS)
    expected = td.gemm(left, c, diag=v, **OPTIONS)
    assert same_bits(td.einsum(*given, optimize=False, **OPTIONS), expected)
    # A path that is given has them as its steps.
    path = [(0, 1), (1, 2), (0, 1), (0, 1)]
    found = td.einsum(*given, optimize=path, **OPTIONS)
    assert np.allclose(found, (a * w) @ (b * v) @ c, rtol=1e-10)


OTHERS = [
    ("ik,k,kj->ikj", (M, K), (K,), (K, N)),
    ("ik,k,kj->kj", (M, K), (K,), (K, N)),
    ("ik,k,k->i", (M, K), (K,), (K,)),
    ("k,k,kj->j", (K,), (K,), (K, N)),
    ("ik,i,kj->ij", (M, K), (M,), (K, N)),
    ("ikl,k,klj->ij", (M, K, 3), (K,), (K, 3, N)),
    ("ik,k,kj,kl->ijl", (M, K), (K,), (K, N), (K, 2)),
    ("ik,k,kj->ij", (M, K), (1,), (K, N)),
    ("ik,k,kj->ij", (M, 0), (0,), (0, N)),
    ("ik,kk,kj->ij", (M, K), (K, K), (K, N)),
    # Each on its own letter.
    ("ab,a,b,bc,ad->cd", (3, 4), (3,), (4,), (4, 5), (3, 6)),
]


@cases("call", OTHERS)
def test_other_vectors_multiply_as_numpy_has_it(call):
    subscripts, *shapes = call
    rng = np.random.default_rng(5)
    for dtype in ("complex128", "int64"):
        arrays = [rng.integers(-9, 9, x).astype(dtype) for x in shapes]
        expected = np.einsum(subscripts, *arrays)
        for optimize in ("auto", False):
            for method in ("auto", "2m", "blas"):
                found = td.einsum(subscripts, *arrays, optimize=optimize, method=method)
                assert (found == expected).all()
                assert found.dtype == expected.dtype
