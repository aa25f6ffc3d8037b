"""Blocks in which products of dask arrays are ours: bits, what is left, and why."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import pytest
from dask.array import einsumfuncs, routines

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.packages import require
from tests.support.strategies import random_matrix
from twom_dist.errors import AccuracyError, ArgumentError, PlanError

OPTIONS = {"method": "2m", "num_moduli": 16}
A, B = random_matrix(9, 7), random_matrix(7, 5, seed=1)
STACK = np.stack([A, 2 * A, A + 1])
a, b = da.from_array(A, chunks=4), da.from_array(B, chunks=3)
s, v = da.from_array(STACK, chunks=(2, 4, 4)), b[:, 0]
integers = da.ones((4, 4), dtype="int64", chunks=2)


def counts(used):
    return used.ours, used.native, used.left


def is_ours(x):
    return any(layer.startswith("twom-") for layer in x.dask.layers)


@pytest.fixture(autouse=True)
def restored():
    """See that dask is as it was, whatever a test has done."""
    owners = da, routines, einsumfuncs, da.Array
    before = [dict(vars(owner)) for owner in owners]
    with dask.config.set(scheduler="sync"):
        yield
    for owner, names in zip(owners, before, strict=True):
        assert names.items() <= vars(owner).items()


AXES, TURNED = ([0, 2], [0, 2]), s.transpose(0, 2, 1)
LETTERS = "ij,jk,lk", a, b, b
# What is called, and what it is to a function of ours.
CALLS = [
    (lambda: a @ b, td.matmul, a, b),
    (lambda: A @ b, td.matmul, A, b),
    (lambda: a @ B, td.matmul, a, B),
    (lambda: a @ v, td.matmul, a, v),
    (lambda: s @ b, td.matmul, s, b),
    (lambda: s @ v, td.matmul, s, v),
    (lambda: da.matmul(a, b), td.matmul, a, b),
    (lambda: np.matmul(A, b), td.matmul, A, b),
    (lambda: np.vdot(v, v), td.matmul, v.conj(), v),
    (lambda: da.tensordot(a, b, 1), td.tensordot, a, b, 1),
    (lambda: np.tensordot(s, s, axes=AXES), td.tensordot, s, s, AXES),
    (lambda: a.dot(b), td.tensordot, a, b, 1),
    (lambda: da.dot(a, v), td.tensordot, a, v, 1),
    (lambda: s.dot(b), td.tensordot, s, b, 1),
    (lambda: np.einsum("ij,kj", a, a.conj()), td.einsum, "ij,kj", a, a.conj()),
    (lambda: da.einsum(a, [0, 1], b, [1, 2]), td.einsum, "ij,jk", a, b),
    (lambda: da.einsum("...j,jk", s, b, split_every=2), td.matmul, s, b),
    (lambda: np.einsum(*LETTERS, optimize=False), None),
    # NumPy's dot: the last axis with the last but one.
    (lambda: v @ TURNED, None),
    (lambda: np.tensordot(s, s.transpose(1, 2, 0)), None),
    (lambda: np.dot(a, TURNED), None),
    (lambda: da.dot(s, TURNED), None),
    (lambda: da.cov(a.real), None),
]


@pytest.mark.filterwarnings("ignore:Increasing number of chunks")
@cases("call", CALLS)
def test_products_have_the_bits_of_ours(call):
    theirs, ours, *given = call
    expected = theirs()
    assert not is_ours(expected)
    with td.use(**OPTIONS) as used:
        found = theirs()
    assert counts(used)[1:] == (0, 0)
    assert is_ours(found)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    values = found.compute()
    assert np.allclose(values, expected)
    if ours is not None:
        assert same_bits(values, ours(*given, **OPTIONS).compute())


def test_opt_einsum_looks_functions_up_again():
    opt_einsum, xarray = require("opt_einsum"), require("xarray")
    x, y = xarray.DataArray(a, dims=[*"ij"]), xarray.DataArray(b, dims=[*"jk"])

    def contract():
        yield opt_einsum.contract("ij,jk", a, b)
        yield opt_einsum.contract("ij,jk,kl->il", a, b, b.T, backend="dask")
        yield xarray.dot(x, y, dim="j").data

    kept = opt_einsum.backends.dispatch._cached_funcs
    for _ in range(2):
        assert not any(map(is_ours, contract()))
        with td.use(method="2m") as used:
            assert all(map(is_ours, contract()))
        assert counts(used) == (4, 0, 0)
        assert ("einsum", "dask") not in kept


def test_what_counts_is_where_a_product_is_made():
    outside = a @ b
    with td.use(**OPTIONS) as used:
        inside = a @ b
        assert same_bits(outside.compute(), (a @ b).compute()) is False
        plain = outside.compute()
    assert counts(used) == (2, 0, 0)
    assert same_bits(inside.compute(), td.matmul(A, B, **OPTIONS))
    assert same_bits(plain, outside.compute())
    assert not is_ours(outside)


NATIVE_CALLS = [
    lambda x: x.T @ x,
    lambda x: da.einsum("ij,ij->j", x, x),
    lambda x: da.einsum("ij,i,ik->jk", x, x[:, 0], x),
    lambda x: da.einsum("ij,ik,jk,kl->il", x, x, x.T @ x, x.T[:, :7]),
    lambda x: da.matmul(x.reshape(40, 100, 8), x.reshape(40, 100, 8)[:, :8]),
    lambda x: da.tensordot(x, x, axes=([0], [0])),
    lambda x: x @ np.ones((8, 3)),
    lambda x: np.matmul(x.T, x),
]


@cases("call", NATIVE_CALLS)
@cases("options", [{}, {"method": "blas"}])
def test_native_products_are_dasks_own(call, options):
    """Its graph and chunks, whose number does not grow with the rows."""
    x = da.ones((4000, 8), chunks=(1000, 8))
    with td.use(**options) as used:
        found = call(x)
    assert used.native
    assert not used.ours
    own = call(x)
    graphs = [dask.optimize(each)[0].__dask_graph__() for each in (found, own)]
    assert (found.chunks, len(graphs[0])) == (own.chunks, len(graphs[1]))


masked = da.ma.masked_array(da.ones((4, 4), chunks=2), mask=False)
unknown = da.ones((4, 4), chunks=2)[da.ones(4, chunks=2) > 0]
LEFT = [
    (ArgumentError, "dtype", lambda: integers @ integers),
    (ArgumentError, "dtype", lambda: a.astype("longdouble").real @ b),
    (ArgumentError, "not-a-matrix", lambda: da.tensordot(masked, masked, 1)),
    (ArgumentError, "not-a-matrix", lambda: a @ [1] * 1),
    (ArgumentError, "families", lambda: da.matmul(A, B)),
    (ArgumentError, "dtype", lambda: da.einsum("ij,jk", a, b, dtype="complex64")),
    (ArgumentError, "unknown-option", lambda: da.einsum("ij,jk", a, b, order="C")),
    (PlanError, "unknown-chunks", lambda: unknown.T @ unknown),
    (PlanError, "shapes", lambda: a @ a),
    (PlanError, "no-axes", lambda: a @ da.ones(())),
]
# By dask as well, after us.
REFUSED = [call for *_, code, call in LEFT if code in ("shapes", "no-axes")]


@cases(("kind", "code", "call"), LEFT)
def test_what_is_not_taken_is_left_unless_strict(kind, code, call):
    with td.use(strict=True, **OPTIONS), raises(kind, code):
        call()
    with td.use(**OPTIONS) as used:
        if call in REFUSED:
            with pytest.raises(Exception) as refused:  # noqa: PT011
                call()
            assert isinstance(refused.value.__context__, kind)
        else:
            assert not is_ours(call())
    assert counts(used) == (0, 0, 1)


def test_what_contracts_nothing_is_no_product():
    with td.use(strict=True, **OPTIONS) as used:
        found = [da.einsum("ij->j", a), da.einsum("i,j->ij", v, v), da.outer(v, v)]
        found += [da.einsum("ij,ij->ij", a, a), da.tensordot(v, v, 0), a * a]
    assert not any(map(is_ours, found))
    assert counts(used) == (0, 0, 0)


def test_a_tally_says_why():
    with td.use(method="2m") as used:
        assert str(used).startswith("0 products ours, 0 native, 0 left\n  no product")
        _ = a @ b, integers @ integers, integers.dot(integers), integers @ integers
    reason = (
        "since int8 products are for floating-point matrices, not int64. "
        "Convert it with astype, or call td.integers.matmul."
    )
    assert str(used).splitlines() == [
        "1 product ours, 0 native, 3 left",
        f"  2 left: matmul, {reason}",
        f"  1 left: tensordot, {reason}",
    ]


@cases(
    ("options", "below", "counted"),
    [({}, 9, (0, 3, 0)), ({}, 6, (2, 1, 0)), ({"method": "blas"}, 3, (0, 3, 0))],
)
def test_native_products_are_told(options, below, counted):
    with dask.config.set({"twom-dist.blas-below": below}), td.use(**options) as used:
        small, large = v @ v, a @ b
        # A network is native only if all of its products are; of sizes 6 and 3.
        network = da.einsum("ij,jk,kl->il", a, b, b.T[:, :2], optimize=False)
    assert counts(used) == counted
    assert is_ours(network) == (not options and below == 6)
    assert np.allclose(small, B[:, 0] @ B[:, 0])
    assert np.allclose(large, A @ B)


REFUSED_OPTIONS = [
    (AccuracyError, "method", {"method": "5m"}),
    (PlanError, "strict", {"strict": "no"}),
    (AccuracyError, "accuracy-out-of-reach", {"accuracy": 1e-300}),
]


@cases(("error", "code", "options"), REFUSED_OPTIONS)
def test_options_are_checked_as_a_block_is_entered(error, code, options):
    with raises(error, code), td.use(**options):
        raise AssertionError("entered")
    with td.use(num_moduli=30) as used:
        _ = a @ b, a.real @ b.real
    assert counts(used) == (1, 0, 1)


OWN = [
    (lambda: td.matmul(A, B, **OPTIONS), (1, 0, 0)),
    (lambda: td.einsum("ij,jk->ik", a, b, method="2m"), (1, 0, 0)),
    (lambda: td.numpy.linalg.tensordot(b=B, axes=1, a=A), (0, 1, 0)),
    # Once, though it calls matmul.
    (lambda: td.numpy.dot(A, B), (0, 1, 0)),
    (lambda: td.numpy.dot(2.0, [1.0]), (0, 0, 0)),
    (lambda: td.matmul(a, b, method="blas"), (0, 1, 0)),
    (lambda: td.matmul(np.eye(3, dtype=int), np.eye(3, dtype=int)), (0, 0, 1)),
    (lambda: td.einsum("ij->ji", A), (0, 0, 0)),
    (lambda: td.gemm(A, B), (0, 0, 0)),
]


@cases(("call", "counted"), OWN)
def test_our_own_contractions_are_counted_by_their_own_options(call, counted):
    with td.use(method="4m") as outer, td.use() as used:
        found = call()
    assert (counts(outer), counts(used)) == ((0, 0, 0), counted)
    if isinstance(found, np.ndarray):
        assert same_bits(found, call())
    with td.use() as used, raises(ArgumentError, "unknown-option"):
        td.matmul(A, B, tol=1)
    assert counts(used) == (0, 0, 0)


def multiplies():
    return is_ours(a @ b)


def test_the_inner_block_counts_and_errors_leave_nothing_behind():
    with td.use(**OPTIONS) as outer:
        with td.use(method="4m") as inner:
            found = a @ b
        _ = a @ b
    assert (outer.ours, inner.ours) == (1, 1)
    assert same_bits(found.compute(), td.matmul(A, B, method="4m"))
    with pytest.raises(KeyError), td.use(), td.use():
        raise KeyError
    with td.use(), pytest.raises(ValueError, match="scalars"):
        _ = a @ da.ones(())
    assert not multiplies()


def test_threads_and_tasks_have_the_blocks_of_their_context():
    with td.use(**OPTIONS) as used, ThreadPoolExecutor(1) as other:
        copy = contextvars.copy_context()
        assert not other.submit(multiplies).result()
        assert other.submit(copy.run, multiplies).result()
    assert used.ours == 1

    async def wait(turn):
        await turn.wait()
        return multiplies()

    async def enter(turn):
        with td.use(**OPTIONS):
            turn.set()
            await asyncio.sleep(0)
            return multiplies()

    async def main():
        turn = asyncio.Event()
        return await asyncio.gather(wait(turn), enter(turn))

    assert asyncio.run(main()) == [False, True]


def test_a_copy_of_a_context_does_not_outlive_its_block():
    with td.use(**OPTIONS) as outer:
        with td.use(**OPTIONS) as inner:
            copy = contextvars.copy_context()
            assert copy.run(multiplies)
        assert copy.run(multiplies)

    def multiply_while_another_is_open():
        with td.use(**OPTIONS):
            return copy.run(multiplies)

    assert not contextvars.Context().run(multiply_while_another_is_open)
    assert (inner.ours, outer.ours) == (1, 1)


def test_what_others_replace_meanwhile_stays():
    original = da.matmul
    try:
        with td.use(**OPTIONS):
            ours = da.matmul
            da.matmul = theirs = lambda x, y: ours(x, y)
            assert is_ours(da.matmul(a, b))
        assert da.matmul is theirs
        assert not is_ours(da.matmul(a, b))
    finally:
        da.matmul = original


def test_of_two_blocks_the_outer_one_may_end_first_or_elsewhere():
    outer, inner = td.use(**OPTIONS), td.use(**OPTIONS)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert multiplies()
    inner.__exit__(None, None, None)
    assert not multiplies()

    def generate():
        with td.use(**OPTIONS) as used:
            yield used

    generator = generate()
    contextvars.copy_context().run(next, generator)
    generator.close()
    assert not multiplies()
