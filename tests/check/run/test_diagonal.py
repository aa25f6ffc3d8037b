"""A diagonal between op(A) and op(B): the bits of a product of scaled columns."""

import tracemalloc
from itertools import cycle

import dask
import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.oracle import exact
from tests.support.splits import split_along_k
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.errors import ArgumentError, KernelError, PlanError

M, N, K = 23, 19, 37
OPTIONS = ({}, {"num_moduli": 9}, {"accuracy": "normwise", "engine": "reference"})


def weights(dtype, k=K, seed=7):
    """Draw numbers of both signs over 16 decades."""
    spread = 10.0 ** np.linspace(-8, 8, k)
    return (random_matrix(1, k, dtype, seed=seed)[0] * spread).astype(dtype)


def scale(x, w):
    x = x.astype(np.result_type(x, w))
    with np.errstate(all="ignore"):
        if x.dtype.kind != "c":
            return x * w
        out, w = np.empty_like(x), w.astype(x.dtype)
        out.real = x.real * w.real - x.imag * w.imag
        out.imag = x.real * w.imag + x.imag * w.real
    return out


def cut(x, *chunks):
    return da.from_array(x, chunks=chunks)


@cases(("dtype", "options"), zip(DTYPES * 2, cycle(OPTIONS), strict=False))
def test_bits_are_those_of_scaled_columns(dtype, options):
    a, b = random_matrix(M, K, dtype), random_matrix(K, N, dtype, seed=1)
    c = random_matrix(M, N, dtype, seed=2)
    added = {"C": c, "alpha": -2, "beta": 0.5, **options}
    for kind in {dtype, np.finfo(dtype).dtype.name}:
        w = weights(kind)
        found = td.gemm(scale(a, w), b, **added)
        for op, stored in (("N", a), ("T", a.T), ("C", a.T.conj())):
            own = td.gemm(stored, b, op_a=op, diag=w, **added)
            assert same_bits(own, found), (op, kind)
        triangle = td.gemm(scale(a, w), a, op_b="T", **options)
        update = td.syrk(a, diag=w, **options)
        assert same_bits(update, update.T)
        assert same_bits(np.tril(update), np.tril(triangle))


@cases("tile", [1000, 8])
@cases("op", ("N", "C"))
@cases("uplo", ("full", "lower", "upper"))
def test_hermitian_with_real_weights_of_both_signs(tile, op, uplo):
    a, w = random_matrix(M, K), weights("float64")
    with dask.config.set({"twom-dist.largest-tile": tile}):
        found = td.herk(a if op == "N" else a.T.conj(), op=op, uplo=uplo, diag=w)
        whole = td.gemm(scale(a, w), a, op_b="C")
    part = np.triu if uplo == "upper" else np.tril
    expected = part(whole)
    np.fill_diagonal(expected, np.diag(whole).real)
    if uplo == "full":
        assert same_bits(found, found.conj().T + 0.0)
        found = part(found)
    assert (found == expected).all()


def test_native_product_and_integers_and_lists():
    a, b, w = random_matrix(M, K), random_matrix(K, N), weights("float64")
    assert same_bits(td.gemm(a, b, diag=w, method="blas"), scale(a, w) @ b)
    ones = np.arange(6.0).reshape(2, 3)
    assert td.gemm(ones, ones.T, diag=[1, 0, 2]).tolist() == [[8, 20], [20, 59]]
    assert td.gemm(ones, ones.T, diag=[True, False, True]).dtype == "float64"
    assert td.gemm(ones.astype("f4"), ones.astype("f4").T, diag=w[:3]).dtype == "f8"


@cases("value", (np.nan, np.inf))
@cases("dtype", ("float64", "complex128"))
def test_every_entry_sees_a_nan_or_inf_among_the_weights(value, dtype):
    """And where A is 0, an Inf makes a NaN; a NaN of A stays in its row."""
    a, b, w = random_matrix(M, K, dtype), random_matrix(K, N, dtype), weights("f8")
    a[4, 2] = np.nan
    found = td.gemm(a, b, diag=w)
    assert np.isnan(found[4]).all()
    assert np.isfinite(np.delete(found, 4, axis=0)).all()
    w[5], a[3, 5], a[4, 2] = value, 0, 1
    found = td.gemm(a, b, diag=w)
    assert same_bits(found, td.gemm(scale(a, w), b))
    assert not np.isfinite(found).any()
    assert np.isnan(found[3]).all()


@cases(("m", "n", "k"), ((0, 3, 4), (3, 0, 4), (3, 4, 0), (3, 4, 5)))
@cases("chunks", (None, 2))
def test_nothing_is_read_of_what_is_empty_or_multiplied_by_zero(m, n, k, chunks):
    a, b, w = np.ones((m, k)), np.ones((k, n)), np.full(k, np.nan)
    if chunks:
        a, b = (da.from_array(x, chunks=chunks) for x in (a, b))
    found = np.asarray(td.gemm(a, b, alpha=0 if m * n * k else 1, diag=w))
    assert found.shape == (m, n)
    assert not found.any()


@cases("chunks", [None, 9])
def test_weights_go_with_tiles_that_are_taken_in_another_order(chunks):
    a, b, w = random_matrix(M, K), random_matrix(K, N), weights("float64")
    with split_along_k(2, 1, seed=1):
        diag = w if chunks is None else cut(w, chunks)
        found = td.gemm(cut(a, 10, 9), cut(b, 9, 10), diag=diag)
    assert same_bits(found.compute(scheduler="sync"), td.gemm(a, b, diag=w))


def test_no_scaled_copy_is_made():
    a, b, w = np.ones((256, 2**15)), np.ones((2**15, 1)), np.ones(2**15)
    with dask.config.set({"twom-dist.largest-tile": 512}):
        td.gemm(a[:, :600], b[:600], diag=w[:600])  # is compiled
        tracemalloc.start()
        td.gemm(a, b, diag=w)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 0.8 * a.nbytes


@cases("kind", ("float64", "complex128"))
@cases("options", ({}, {"accuracy": "normwise"}))
def test_the_bound_holds_of_exact_sums(kind, options):
    a, b, w = random_matrix(3, K, phi=2), random_matrix(K, 3, phi=2), weights(kind)
    explained = td.explain(td.gemm, a, b, diag=w, **options)
    assert "diag" in explained.relative_to
    found = td.gemm(a, b, diag=w, **options)
    sizes = np.abs(a) * np.abs(w), np.abs(b)
    least = np.linalg.norm(sizes[0], axis=1)[:, None] * np.linalg.norm(sizes[1], axis=0)
    least = sizes[0] @ sizes[1] if not options else least
    error = exact(found) - exact(a) @ exact(np.diag(w)) @ exact(b)
    assert (abs(error.rounded()) <= explained.error_bound * least).all()


def test_plans_and_explanations_are_those_of_scaled_columns():
    a, b, w = random_matrix(M, K), random_matrix(K, N), weights("float64")
    found = td.explain(td.gemm, cut(a, 10, 9), b, diag=cut(w, 9))
    expected = td.explain(td.gemm, scale(a, w), b)
    for name in ("num_moduli", "rho", "equilibrated", "exponents"):
        assert getattr(found, name) == getattr(expected, name)
    shape, given = (4000, 3000), {"chunks": 500, "diag": (3000,)}
    gemm = td.plan(td.gemm, shape, shape[::-1], **given)
    plain = td.plan(td.gemm, shape, shape[::-1], chunks=500)
    assert gemm.memory.temporaries - plain.memory.temporaries == 2 * 500 * 500 * 16
    assert gemm.error_bound > plain.error_bound
    beside = {"chunks": 500, "diag": np.ones(3000)}
    assert td.plan(td.gemm, shape, shape[::-1], **beside) == gemm


A, SINGLE, MEMORY = np.ones((2, 3)), np.ones((2, 3), "f4"), np.ones(7)
STACK = np.ones((2, 3, 2), "i1")
UNKNOWN = cut(np.ones(4), 2)[cut(np.arange(4), 2) > 0]
SHORT = cut(np.ones(6), 3).map_blocks(lambda x: x[:1], dtype=float)
LIES = td.gemm(cut(np.ones((4, 6)), 2, 3), cut(np.ones((6, 4)), 3, 2), diag=SHORT)


def multiply(diag, **options):
    return lambda: td.gemm(A, A.T, diag=diag, **options)


@cases(
    ("kind", "code", "call"),
    [
        *((PlanError, "diag-shape", multiply(x)) for x in (A[:, 0], A[:1], 2.0)),
        (ArgumentError, "dtype", multiply(["x", "y", "z"])),
        (PlanError, "unknown-chunks", multiply(UNKNOWN)),
        (PlanError, "out", multiply(MEMORY[:3], out=MEMORY[2:6].reshape(2, 2))),
        (PlanError, "out", multiply(cut(np.ones(3), 2), out=np.ones((2, 2)))),
        (ArgumentError, "diag-complex", lambda: td.herk(A, diag=np.ones(3, "c16"))),
        (ArgumentError, "dtype-unsafe", lambda: td.sgemm(SINGLE, SINGLE.T, diag=A[0])),
        (ArgumentError, "unknown-option", lambda: td.her2k(A, A, diag=A[0])),
        (ArgumentError, "pairs", lambda: td.syrk(STACK, diag=[1, 2])),
        (KernelError, "block-shape", lambda: LIES.compute(scheduler="sync")),
    ],
)
def test_what_is_no_diagonal_is_refused(kind, code, call):
    with raises(kind, code):
        call()
