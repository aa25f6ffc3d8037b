"""Contractions: the numbers of NumPy, views instead of copies, and updates."""

import tracemalloc

import dask
import numpy as np
import opt_einsum as oe
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from opt_einsum.testing import rand_equation

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, routines, same_bits
from tests.support.strategies import random_matrix
from twom_dist.errors import MemoryLimitError

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
def contractions(draw):
    letters = st.text("abcde", max_size=4)
    terms = draw(st.lists(letters, min_size=1, max_size=draw(st.sampled_from([2, 4]))))
    known = sorted(set("".join(terms)))
    output = draw(st.permutations(known)) if known else []
    kept = draw(st.integers(0, len(output)))
    implicit = draw(st.booleans())
    subscripts = ",".join(terms) + ("" if implicit else "->" + "".join(output[:kept]))
    dtype, operands = draw(st.sampled_from(DTYPES)), []
    for i, term in enumerate(terms):
        axes = draw(st.permutations(range(len(term)))) if term else None
        operands.append(integers([SIZES[x] for x in term], dtype, i, axes))
    ways = {"auto": ["auto", False, "greedy"], "2m": ["auto", "greedy"]}
    method = draw(st.sampled_from([*ways]))
    options = {"method": method, "optimize": draw(st.sampled_from(ways[method]))}
    return subscripts, operands, options


def expect(found, expected):
    # A number, where it is one in NumPy.
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert (found == expected).all()


@pytest.mark.filterwarnings("ignore:overflow")
@settings(max_examples=40)
@given(contractions())
def test_einsum_is_that_of_numpy(drawn):
    subscripts, operands, options = drawn
    found = td.einsum(subscripts, *operands, **options)
    expect(found, np.einsum(subscripts, *operands))


LONG = (2, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 2, 4)
EINSUMS = [
    ("...ij,...jk", (2, 1, 2, 3), (4, 3, 2)),
    ("...,...i->i...", (3, 2), (1, 2, 4)),
    ("i...j,j->i...", (2, 3, 4, 5), (5,)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("ij...,jk...->k...i", (2, 3, 2), (3, 4, 1)),
    (" i j , j k -> k i ", (2, 3), (3, 4)),
    ("ii,i", (3, 3), (1,)),
    ("ij,jk->ik", (2, 0), (0, 4)),
    ("bij,bjk->bik", (0, 2, 3), (0, 3, 2)),
    ("...j,jk", LONG, (4, 5)),
]
MATMULS = [
    *([(3,), (3,)], [(3,), (3, 2)], [(2, 3), (3,)], [(2, 3), (3, 4)]),
    *([(5, 2, 3), (3, 4)], [(5, 2, 3), (5, 3, 4)], [(5, 1, 2, 3), (4, 3, 2)]),
    *([(3,), (5, 3, 2)], [(5, 2, 3), (3,)], [(2, 0), (0, 3)]),
]
TENSORDOTS = [
    (0, (4, 3, 4), (3, 4, 4)),
    (1, (4, 3, 4), (4, 2)),
    (2, (2, 3, 4), (3, 4, 5)),
    (([0], [1]), (4, 3, 4), (3, 4, 4)),
    (([1, -1], [0, 2]), (4, 3, 4), (3, 4, 4)),
    ((-1, 0), (4, 3, 4), (4, 2)),
    ([[], []], (4, 3, 4), (3, 4, 4)),
]
# The name of a function, what comes before and after two operands, and their shapes.
CALLS = [("einsum", (text,), (), shapes) for text, *shapes in EINSUMS]
CALLS += [("matmul", (), (), shapes) for shapes in MATMULS]
CALLS += [("tensordot", (), (axes,), shapes) for axes, *shapes in TENSORDOTS]


@cases(("name", "before", "after", "shapes"), CALLS)
@cases("dtype", ["complex128", "int64", "float16"])
def test_axes_are_those_of_numpy(name, before, after, shapes, dtype):
    a, b = (integers(shape, dtype, i) for i, shape in enumerate(shapes))

    def call(library, a, **options):
        return getattr(library, name)(*before, a, b, *after, **options)

    expected = call(np, a)
    for method in ("auto", "2m"):
        expect(call(td, a, method=method), expected)
    if a.size:
        expect(call(td, a.tolist()), call(np, a.tolist()))
    if expected.ndim and name != "tensordot":
        out = np.empty_like(expected)
        assert call(td, a, out=out, method="2m") is out
        expect(out, expected)


VIEWS = ["ij,jk->ik", "ji,jk->ik", "ij,kj->ik", "abij,ijc->abc", "ijab,cij->bac"]
VIEWS += ["xij,xjk->xik", "ixj,jkx->xki", "aij,jib->ab"]


@cases("subscripts", VIEWS)
def test_no_large_operand_is_copied(subscripts):
    """Not even where its axes are in an order that the other's are not in."""
    sizes = dict(zip("abcijkx", (40, 50, 2, 60, 70, 2, 2), strict=True))
    terms = subscripts.partition("->")[0].split(",")
    a, b = (integers([sizes[x] for x in term], seed=i) for i, term in enumerate(terms))
    large = max(a.nbytes, b.nbytes)
    expected = np.einsum(subscripts, a, b, optimize=True)
    tracemalloc.start()
    found = td.einsum(subscripts, a, b, method="blas")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expect(found, expected)
    assert most < large + 2 * found.nbytes + 2**16 or large < 2**17


UPDATES = [
    ("herk", lambda z: (td.matmul, z, z.conj().T), td.herk),
    ("herk", lambda z: (td.matmul, z.conj().T, z), lambda z: td.herk(z, op="C")),
    ("syrk", lambda z: (td.matmul, z, z.T), td.syrk),
    ("syrk", lambda z: (td.einsum, "ki,kj", z, z), lambda z: td.syrk(z.T)),
    ("herk", lambda z: (td.einsum, "ik,jk", z.conj(), z), lambda z: td.herk(z.conj())),
    ("herk", lambda z: (td.tensordot, z, z.conj(), ([1], [1])), td.herk),
    (
        "herk",
        lambda z: (td.matmul, z[None], z[None].conj().mT),
        lambda z: td.herk(z)[None],
    ),
    ("gemm", lambda z: (td.matmul, z, z.copy().T), td.syrk),
    ("gemm", lambda z: (td.matmul, z, z[::-1].T), lambda z: td.syrk(z)[:, ::-1]),
]


@cases(("routine", "contract", "expected"), UPDATES)
def test_products_with_oneself_are_updates(routine, contract, expected):
    z = integers((7, 12), seed=3)
    z[1, 2] = np.nan  # whose conjugate is one as well
    function, *given = contract(z)
    with routines() as called:
        found = function(*given, method="2m")
        td.matmul(z, z.T, method="2m", equilibrate=True)
    assert np.array_equal(found, expected(z), equal_nan=True)
    assert called == [routine, "gemm"]


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


def test_a_path_may_be_given_and_its_products_limited():
    a, b, c = (integers((3, 3), seed=i) for i in range(3))
    paths = [(1, 2), (0, 1)], ["einsum_path", (0, 1), (0, 1)], [(0, 1, 2)], False
    for path in (*paths, ("greedy", 10**6), ["optimal", 1e3], ("greedy", 10**40)):
        expect(td.einsum("ij,jk,kl->il", a, b, c, optimize=path), a @ b @ c)


def test_small_products_are_those_of_numpy():
    a = np.random.default_rng(0).random((20, 20))
    assert same_bits(td.matmul(a, a), a @ a)
    assert same_bits(td.einsum("ij,jk", a, a), a @ a)
    assert same_bits(td.matmul(a, a.T), a @ a.T)
    expect(td.matmul(a, a, num_moduli=16), td.gemm(a, a, num_moduli=16))


CAST = [("ij,j->j", (x, "float64")) for x in ("int8", "bool", "float32", ">f8")]
CAST += [("i,i,i->", ("int8", "int8", "float64"))]
CAST += [("ij->j", (x,)) for x in (">f8", "int8")]


@cases(("subscripts", "dtypes"), CAST)
def test_operands_are_cast_before_anything_is_summed(subscripts, dtypes):
    terms = subscripts.partition("->")[0].split(",")
    sizes = {"i": 40, "j": 3}
    operands = [
        np.full([sizes[x] for x in term], 100).astype(dtype)
        for term, dtype in zip(terms, dtypes, strict=True)
    ]
    expect(td.einsum(subscripts, *operands), np.einsum(subscripts, *operands))


@cases("accuracy", ["componentwise", "normwise", 1e-5])
def test_an_accuracy_is_that_of_gemm(accuracy):
    a, b = (random_matrix(9, 9, phi=2.0, seed=seed) for seed in (1, 2))
    expected = td.gemm(a, b, accuracy=accuracy)
    assert same_bits(td.matmul(a, b, accuracy=accuracy), expected)
    assert same_bits(td.tensordot(a, b, 1, accuracy=accuracy), expected)
    assert same_bits(td.einsum("ij,jk", a, b, accuracy=accuracy), expected)


def test_lists_of_numbers_stand_for_letters_as_in_numpy():
    A, B = random_matrix(3, 4), random_matrix(4, 5)
    for call in (
        (A, [0, 1], B, [1, 2], [2, 0]),
        (A, [30, 1], B, [1, 2]),
        (A, [..., 1], B, [1, 2], [..., 2]),
        (A, [0, 1], [1]),
        (A, (0, 1)),
    ):
        expected, found = np.einsum(*call), td.einsum(*call, method="2m")
        assert found.shape == expected.shape
        assert np.allclose(found, expected)
    # There may be more axes than letters, and other labels than numbers.
    assert np.array_equal(td.einsum(A, [60, 1], B, [1, 5000]), td.matmul(A, B))
    assert np.array_equal(td.einsum(A, ["z", "b"]), A.T)
    # NumPy's order of an unnamed result beyond 26 axes, as letters have it, is theirs.
    x = np.ones((1,) * 26 + (3, 2))
    for axes in (range(28), range(27, -1, -1)):
        assert td.einsum(x, [*axes]).shape == np.einsum(x, [*axes]).shape


def test_a_view_that_is_too_large_to_be_copied_says_so():
    shape = 2**20, 2**20, 2**10, 2**6
    view = as_strided(np.zeros(2**22, "f4"), shape, (4,) * 4, writeable=False)
    with raises(MemoryLimitError, "memory"):
        td.einsum("abij,ij->ab", view, np.ones(shape[2:], "f4"), method="2m")
