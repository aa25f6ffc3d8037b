"""Contractions: the numbers of NumPy, views instead of copies, and updates."""

import warnings

import dask
import numpy as np
import opt_einsum as oe
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opt_einsum.testing import rand_equation

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.packages import require
from tests.support.strategies import random_matrix
from twom_dist.contract import pair
from twom_dist.contract.subscripts import parse

SIZES = dict(zip("abcde", (1, 2, 3, 2, 4), strict=True))
DTYPES = ("float64", "complex128", "complex64", "int64", "int8")


def integers(shape, dtype="complex128", seed=0, axes=None):
    """Draw small integers, whose axes lie in memory in an order of their own."""
    rng = np.random.default_rng([seed, *shape])
    x = rng.integers(-4, 5, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.integers(-4, 5, shape)
    x = np.asarray(x).astype(dtype)
    if axes is None:
        return x
    return np.ascontiguousarray(x.transpose(axes)).transpose(np.argsort(axes))


@st.composite
def contractions(draw, most):
    letters = st.text("abcde", max_size=4)
    terms = draw(st.lists(letters, min_size=1, max_size=most))
    known = sorted(set("".join(terms)))
    output = draw(st.permutations(known)) if known else []
    kept = draw(st.integers(0, len(output)))
    implicit = draw(st.booleans())
    subscripts = ",".join(terms) + ("" if implicit else "->" + "".join(output[:kept]))
    dtype, operands = draw(st.sampled_from(DTYPES)), []
    for i, term in enumerate(terms):
        axes = draw(st.permutations(range(len(term)))) if term else None
        operands.append(integers([SIZES[x] for x in term], dtype, i, axes))
    return subscripts, operands


def expect(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert (found == expected).all()


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("method", ["auto", "2m"])
@given(contractions(2))
def test_einsum_of_two_is_that_of_numpy(method, drawn):
    subscripts, operands = drawn
    expect(td.einsum(subscripts, *operands, method=method), np.einsum(*flat(drawn)))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("optimize", [False, "greedy"])
@given(contractions(4))
def test_einsum_of_many_is_that_of_numpy(optimize, drawn):
    subscripts, operands = drawn
    found = td.einsum(subscripts, *operands, optimize=optimize)
    expect(found, np.einsum(*flat(drawn)))


def flat(drawn):
    return drawn[0], *drawn[1]


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("...ij,...jk", [(2, 1, 2, 3), (4, 3, 2)]),
        ("...,...i->i...", [(3, 2), (1, 2, 4)]),
        ("i...j,j->i...", [(2, 3, 4, 5), (5,)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("ij...,jk...->k...i", [(2, 3, 2), (3, 4, 1)]),
        (" i j , j k -> k i ", [(2, 3), (3, 4)]),
        ("ii,i", [(3, 3), (1,)]),
        ("ij,jk->ik", [(2, 0), (0, 4)]),
        ("bij,bjk->bik", [(0, 2, 3), (0, 3, 2)]),
    ],
)
def test_axes_are_broadcast_as_in_numpy(subscripts, shapes):
    operands = [integers(shape) for shape in shapes]
    for method in ("auto", "2m"):
        found = td.einsum(subscripts, *operands, method=method)
        expect(found, np.einsum(subscripts, *operands))


@cases(
    "shapes",
    [
        *([(3,), (3,)], [(3,), (3, 2)], [(2, 3), (3,)], [(2, 3), (3, 4)]),
        *([(5, 2, 3), (3, 4)], [(5, 2, 3), (5, 3, 4)], [(5, 1, 2, 3), (4, 3, 2)]),
        *([(3,), (5, 3, 2)], [(5, 2, 3), (3,)], [(2, 0), (0, 3)]),
    ],
)
@cases("dtype", ["complex128", "float32", "int64", "bool", "float16"])
def test_matmul_is_that_of_numpy(shapes, dtype):
    a, b = (integers(shape, dtype, i) for i, shape in enumerate(shapes))
    expected = np.matmul(a, b)
    for method in ("auto", "2m"):
        expect(td.matmul(a, b, method=method), expected)
    expect(td.matmul(a.tolist(), b), np.matmul(a.tolist(), b))
    if expected.ndim:
        out = np.empty_like(expected)
        assert td.matmul(a, b, out=out, method="2m") is out
        expect(out, expected)


@pytest.mark.parametrize(
    "axes", [0, 1, ([0], [1]), ([1, -1], [0, 2]), (-1, 0), [[], []]]
)
def test_tensordot_is_that_of_numpy(axes):
    a, b = integers((4, 3, 4)), integers((3, 4, 4), seed=1)
    if axes == 1 or axes == (-1, 0):
        b = integers((4, 2), seed=2)
    for method in ("auto", "2m"):
        expect(td.tensordot(a, b, axes, method=method), np.tensordot(a, b, axes))


def test_tensordot_contracts_two_axes_by_default():
    a, b = integers((2, 3, 4)), integers((3, 4, 5), seed=1)
    expect(td.tensordot(a, b, method="2m"), np.tensordot(a, b))


def test_transpose_is_a_view():
    a = integers((2, 3, 4))
    for axes in (None, (2, 0, 1), [-1, 0, 1]):
        assert td.transpose(a, axes).strides == np.transpose(a, axes).strides


def watch(monkeypatch):
    """Keep what reaches the products."""
    seen = []

    def compute(call):
        seen.append((call.terms.routine.name, call.A, call.B, call.terms.ops))
        return original(call)

    original = pair.compute_call
    monkeypatch.setattr(pair, "compute_call", compute)
    return seen


@pytest.mark.parametrize(
    ("subscripts", "ops"),
    [
        ("ij,jk->ik", "NN"),
        ("ji,jk->ik", "TN"),
        ("ij,kj->ik", "NT"),
        ("ji,kj->ki", "TT"),
        ("abij,ijc->abc", "NN"),
        ("ijab,cij->bac", "TT"),
        ("ijab,cji->bac", None),
        ("xij,xjk->xik", "NN"),
        ("ixj,jkx->xki", "NN"),
        ("xaij,jxib->xab", None),
    ],
)
def test_no_operand_is_copied_that_a_view_of_is_a_matrix(monkeypatch, subscripts, ops):
    sizes = dict(zip("abcijkx", (2, 3, 4, 5, 6, 7, 2), strict=True))
    terms = subscripts.partition("->")[0].split(",")
    a, b = (integers([sizes[x] for x in term], seed=i) for i, term in enumerate(terms))
    seen = watch(monkeypatch)
    found = td.einsum(subscripts, a, b, method="2m")
    expect(found, np.einsum(subscripts, a, b))
    ((_, A, B, taken),) = seen
    shared = [np.shares_memory(x, y) for x, y in ((a, A), (b, B))]
    if ops is None:
        # One order of what is contracted suits one of the two.
        assert shared.count(True) <= 1
    else:
        assert shared == [True, True]
        assert "".join(taken) == ops


def test_the_smaller_operand_is_copied(monkeypatch):
    large, little = integers((30, 3, 4)), integers((4, 3, 2))
    for first in (True, False):
        seen = watch(monkeypatch)
        if first:
            td.einsum("aij,jib->ab", large, little, method="2m")
        else:
            td.einsum("jib,aij->ab", little, large, method="2m")
        (_, A, B, _), *_ = seen
        assert np.shares_memory(large, A if first else B)
        monkeypatch.undo()


UPDATES = [
    ("herk", lambda z: td.matmul(z, z.conj().T, method="2m"), lambda z: td.herk(z)),
    (
        "herk",
        lambda z: td.matmul(z.conj().T, z, method="2m"),
        lambda z: td.herk(z, op="C"),
    ),
    ("syrk", lambda z: td.matmul(z, z.T, method="2m"), lambda z: td.syrk(z)),
    ("syrk", lambda z: td.einsum("ki,kj", z, z, method="2m"), lambda z: td.syrk(z.T)),
    (
        "herk",
        lambda z: td.einsum("ik,jk->ij", z.conj(), z, method="2m"),
        lambda z: td.herk(z.conj()),
    ),
    (
        "herk",
        lambda z: td.einsum("ki,kj->ji", z.T, z.conj().T, method="2m"),
        lambda z: td.herk(z).T,
    ),
    ("gemm", lambda z: td.matmul(z, z.copy().T, method="2m"), lambda z: td.syrk(z)),
    (
        "gemm",
        lambda z: td.matmul(z, z.T, method="2m", equilibrate=True),
        lambda z: td.gemm(z, z, op_b="T", equilibrate=True),
    ),
    (
        "gemm",
        lambda z: td.matmul(z, z[::-1].T, method="2m"),
        lambda z: td.syrk(z)[:, ::-1],
    ),
]


@pytest.mark.parametrize(("routine", "contract", "expected"), UPDATES)
def test_products_with_oneself_are_updates(monkeypatch, routine, contract, expected):
    z = integers((7, 12), seed=3)
    seen = watch(monkeypatch)
    found = contract(z)
    (call,) = seen
    monkeypatch.undo()
    assert call[0] == routine
    expect(found, expected(z))


def test_updates_are_found_in_tensors_and_stacks(monkeypatch):
    z = integers((2, 5, 3, 2), seed=4)
    seen = watch(monkeypatch)
    found = td.tensordot(z, z.conj(), ([0, 2, 3], [0, 2, 3]), method="2m")
    expect(found, np.tensordot(z, z.conj(), ([0, 2, 3], [0, 2, 3])))
    found = td.matmul(z, z.conj().swapaxes(2, 3), method="2m")
    expect(found, np.matmul(z, z.conj().swapaxes(2, 3)))
    assert [name for name, *_ in seen] == ["herk", "herk"]


def test_a_network_has_the_numbers_of_numpy():
    expression, shapes = rand_equation(30, 3, d_max=4, seed=5)
    rng = np.random.default_rng(6)
    operands = [rng.random(s) - 0.5 + 1j * (rng.random(s) - 0.5) for s in shapes]
    expected = oe.contract(expression, *operands)
    # For each sum of k products sqrt(k) + 2 units, of a network the sum over all pairs.
    bound = oe.contract(expression, *map(abs, operands)) * 30 * 20 * 2.0**-53
    for below in (0, None):
        with dask.config.set({"twom-dist.blas-below": below}):
            for found in (
                oe.contract(expression, *operands, backend="twom_dist"),
                td.einsum(expression, *operands),
            ):
                assert (abs(found - expected) <= bound).all()


def test_libraries_take_our_functions():
    a, b, c = (integers((3, 3), seed=i) for i in range(3))
    implementation = (td.einsum, td.tensordot)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import cotengra

        tensors = require("quimb.tensor")
        found = cotengra.einsum("ij,jk,kl->il", a, b, c, implementation=implementation)
        expect(found, a @ b @ c)
    network = tensors.TensorNetwork(
        [tensors.Tensor(a, "ij"), tensors.Tensor(b, "jk"), tensors.Tensor(c, "kl")]
    )
    found = network.contract(
        output_inds="il", backend="numpy", implementation=implementation
    )
    expect(found.data, a @ b @ c)


def test_a_path_may_be_given():
    a, b, c = (integers((3, 3), seed=i) for i in range(3))
    for path in ([(1, 2), (0, 1)], ["einsum_path", (0, 1), (0, 1)], [(0, 1, 2)], False):
        expect(td.einsum("ij,jk,kl->il", a, b, c, optimize=path), a @ b @ c)


def test_subscripts_are_read_as_numpy_reads_them():
    read = parse("...ij,jk...", (4, 3))
    assert read.terms == (("...1", "...0", "i", "j"), ("j", "k", "...0"))
    assert read.output == ("...1", "...0", "i", "k")


def test_more_than_ten_axes_of_an_ellipsis_stay_in_order():
    x = integers((2, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 2, 4))
    y = integers((4, 5), seed=1)
    expect(td.einsum("...j,jk", x, y), np.matmul(x, y))


def test_small_products_are_those_of_numpy(monkeypatch):
    monkeypatch.setattr(pair, "update", None)
    a = np.random.default_rng(0).random((20, 20))
    seen = watch(monkeypatch)
    assert (td.matmul(a, a) == a @ a).all()
    assert (td.einsum("ij,jk", a, a) == a @ a).all()
    assert (td.matmul(a, a.T) == a @ a.T).all()
    assert seen == []
    expect(td.matmul(a, a, num_moduli=16), td.gemm(a, a, num_moduli=16))


@pytest.mark.parametrize(
    ("subscripts", "dtypes"),
    [
        ("ij,j->j", ("int8", "float64")),
        ("ij,j->j", ("bool", "float64")),
        ("ij,j->j", ("float32", "float64")),
        ("i,i,i->", ("int8", "int8", "float64")),
        ("ij->j", (">f8",)),
        ("ij->j", ("int8",)),
        ("ij,j->j", (">f8", "float64")),
    ],
)
def test_operands_are_cast_before_anything_is_summed(subscripts, dtypes):
    terms = subscripts.partition("->")[0].split(",")
    sizes = {"i": 40, "j": 3}
    operands = [
        np.full([sizes[x] for x in term], 100).astype(dtype)
        for term, dtype in zip(terms, dtypes, strict=True)
    ]
    expect(td.einsum(subscripts, *operands), np.einsum(subscripts, *operands))


def test_a_conjugate_with_a_nan_is_one():
    x = random_matrix(5, 6)
    x[1, 2] = np.nan
    found = td.matmul(x, x.conj().T, method="2m")
    assert same_bits(found, td.herk(x))
