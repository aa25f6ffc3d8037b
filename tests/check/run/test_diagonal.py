"""A diagonal between op(A) and op(B): the bits of a product of scaled columns."""

import tracemalloc
from itertools import cycle

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.oracle import exact
from tests.support.splits import force_split, look_in_strips, order_at_random
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.errors import ArgumentError, KernelError, PlanError
from twom_dist.run import eager

M, N, K = 23, 19, 37
OPTIONS = ({}, {"num_moduli": 9}, {"accuracy": "normwise", "engine": "reference"})
TILES = (1000, 8)


def weights(dtype, k=K, seed=7):
    """Draw numbers of both signs over 16 decades."""
    spread = 10.0 ** np.linspace(-8, 8, k)
    return (random_matrix(1, k, dtype, seed=seed)[0] * spread).astype(dtype)


def scale(x, w):
    """Multiply columns, each real operation rounded by itself."""
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


@cases(
    ("dtype", "options", "tile"),
    zip(DTYPES * 2, cycle(OPTIONS), TILES * 4, strict=False),
)
def test_bits_are_those_of_scaled_columns(dtype, options, tile):
    a, b = random_matrix(M, K, dtype), random_matrix(K, N, dtype, seed=1)
    c = random_matrix(M, N, dtype, seed=2)
    added = {"C": c, "alpha": -2, "beta": 0.5, **options}
    with dask.config.set({"twom-dist.largest-tile": tile}):
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


@cases("options", OPTIONS[:2])
@cases("tile", TILES)
@cases("op", ("N", "C"))
@cases("uplo", ("full", "lower", "upper"))
def test_hermitian_with_real_weights_of_both_signs(options, tile, op, uplo):
    a, w = random_matrix(M, K), weights("float64")
    left = scale(a, w)
    with dask.config.set({"twom-dist.largest-tile": tile}):
        x = a if op == "N" else a.T.conj()
        found = td.herk(x, op=op, uplo=uplo, diag=w, **options)
        whole = td.gemm(left, a, op_b="C", **options)
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
def test_nan_and_inf_among_the_weights(value, dtype):
    """Every entry sees them; where A is 0, an Inf makes a NaN."""
    a, b, w = random_matrix(M, K, dtype), random_matrix(K, N, dtype), weights("f8")
    w[5], a[3, 5] = value, 0
    found, native = td.gemm(a, b, diag=w), td.gemm(scale(a, w), b)
    assert same_bits(found, native)
    assert not np.isfinite(found).any()
    assert np.isnan(found[3]).all()


def test_a_nan_stays_in_its_row():
    a, b, w = random_matrix(M, K), random_matrix(K, N), weights("float64")
    a[4, 2] = np.nan
    found = td.gemm(a, b, diag=w)
    assert np.isnan(found[4]).all()
    assert np.isfinite(np.delete(found, 4, axis=0)).all()


@cases("shape", ((0, 3, 4), (3, 0, 4), (3, 4, 0), (3, 4, 5)))
@cases("lazy", (False, True))
def test_nothing_is_read_of_what_is_empty_or_multiplied_by_zero(shape, lazy):
    m, n, k = shape
    a, b, w = np.ones((m, k)), np.ones((k, n)), np.full(k, np.nan)
    if lazy:
        a, b = (da.from_array(x, chunks=2) for x in (a, b))
    found = np.asarray(td.gemm(a, b, alpha=0 if m * n * k else 1, diag=w))
    assert found.shape == (m, n)
    assert not found.any()


@pytest.mark.parametrize("options", [{}, {"num_moduli": 5}])
def test_no_scaled_copy_is_made(options, monkeypatch):
    """What a diagonal takes beside the same product is a part of A."""
    monkeypatch.setattr(eager, "_SCALED_ENTRIES", 2**15)
    m, n, k = 512, 4, 2048
    a, b, w = random_matrix(m, k, "float64"), random_matrix(k, n, "float64"), np.ones(k)
    peaks = []
    with dask.config.set({"twom-dist.largest-tile": 128}):
        for more in ({}, {"diag": w}) * 2:  # compiled by the first two
            tracemalloc.start()
            td.gemm(a, b, **options, **more)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[3] - peaks[2] < a.nbytes / 8


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


@cases(("inputs", "options"), [("hold", {}), ("stream", {}), ("stream", OPTIONS[1])])
def test_tiles_in_any_order_along_k(inputs, options, monkeypatch):
    """Held and made again; workers that share k take what they hold first."""
    a, b, w = random_matrix(M, K), random_matrix(K, N), weights("float64")
    left, right = (x.map_blocks(np.copy) for x in (cut(a, 10, 5), cut(b, 5, 7)))
    force_split(monkeypatch, 3, 2)
    look_in_strips(monkeypatch, 5)
    order_at_random(monkeypatch, 5)
    with dask.config.set({"twom-dist.inputs": inputs}):
        found = td.gemm(left, right, diag=w, **options).compute(scheduler="sync")
        assert same_bits(found, td.gemm(a, b, diag=w, **options))
        found = td.herk(left, diag=cut(w, 9), **options).compute(scheduler="sync")
        assert same_bits(found, td.herk(a, diag=w, **options))
    monkeypatch.undo()


def test_an_update_halves_the_tiles_and_looks_as_a_product_does():
    shape = (4000, 3000)
    given = {"chunks": 500, "diag": (3000,)}
    herk = td.plan(td.herk, shape, **given)
    gemm = td.plan(td.gemm, shape, shape[::-1], **given)
    assert herk.num_int8_gemms / gemm.num_int8_gemms == 36 / 64
    plain = td.plan(td.gemm, shape, shape[::-1], chunks=500)
    scaled = 2 * 500 * 500 * 16
    assert gemm.memory.temporaries - plain.memory.temporaries == scaled
    assert gemm.error_bound > plain.error_bound
    assert "|diag|" in str(gemm)


def test_explanations_are_those_of_scaled_columns():
    a, b, w = random_matrix(M, K), random_matrix(K, N), weights("float64")
    found = td.explain(td.gemm, cut(a, 10, 9), b, diag=cut(w, 9))
    expected = td.explain(td.gemm, scale(a, w), b)
    for name in ("num_moduli", "rho", "equilibrated", "exponents"):
        assert getattr(found, name) == getattr(expected, name)


MEMORY = np.ones(7)
UNKNOWN = cut(np.ones(4), 2)[cut(np.arange(4), 2) > 0]
REFUSALS = [
    (PlanError, "diag-shape", np.ones(2), {}),
    (PlanError, "diag-shape", np.ones((1, 3)), {}),
    (PlanError, "diag-shape", 2.0, {}),
    (ArgumentError, "dtype", ["x", "y", "z"], {}),
    (PlanError, "unknown-chunks", UNKNOWN, {}),
    (PlanError, "out", MEMORY[:3], {"out": MEMORY[2:6].reshape(2, 2)}),
    (PlanError, "out", cut(np.ones(3), 2), {"out": np.ones((2, 2))}),
]


@cases(("kind", "code", "diag", "options"), REFUSALS)
def test_refusals(kind, code, diag, options):
    a = np.ones((2, 3))
    with raises(kind, code):
        td.gemm(a, a.T, diag=diag, **options)


def test_routines_that_take_no_such_diagonal():
    a, single = np.ones((2, 3)), np.ones((2, 3), "f4")
    wrong = cut(np.ones(6), 3).map_blocks(lambda x: x[:1], dtype=float)
    lies = td.gemm(cut(np.ones((4, 6)), 2, 3), cut(np.ones((6, 4)), 3, 2), diag=wrong)
    for kind, code, call in (
        (ArgumentError, "diag-complex", lambda: td.herk(a, diag=np.ones(3, complex))),
        (ArgumentError, "dtype-unsafe", lambda: td.sgemm(single, single.T, diag=a[0])),
        (ArgumentError, "diag", lambda: td.Product((2, 3), (3, 2), diag=a[0])),
        (ArgumentError, "unknown-option", lambda: td.her2k(a, a, diag=a[0])),
        (KernelError, "block-shape", lambda: lies.compute(scheduler="sync")),
    ):
        with raises(kind, code):
            call()
