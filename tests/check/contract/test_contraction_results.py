"""Results of contractions: as accurate as is asked for, and numbers as NumPy's."""

import numpy as np

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.strategies import random_matrix

NUMBER, VECTOR, SQUARE = np.array(2.0), np.arange(3.0), np.eye(3)


@cases(
    "call",
    [
        lambda lib: lib.tensordot(SQUARE, SQUARE),
        *(lambda lib, x=x: lib.tensordot(x, x, 1) for x in (VECTOR, [1, 2])),
        *(lambda lib, x=x: lib.tensordot(x, x, 0) for x in (NUMBER, 3.0)),
        *(lambda lib, x=x: lib.matmul(x, x) for x in (VECTOR, [1, 2])),
        *(lambda lib, x=x: lib.einsum("i,i->", x, x) for x in (VECTOR, [1, 2])),
        *(lambda lib, x=x: lib.einsum(",", x, x) for x in (NUMBER, 3.0)),
        lambda lib: lib.einsum("ij->", SQUARE),
        lambda lib: lib.einsum("->", NUMBER),
        lambda lib: lib.einsum("i,i,i->", VECTOR, VECTOR, VECTOR, optimize=False),
        *(lambda lib, x=x: lib.transpose(x) for x in (NUMBER, 3.0)),
    ],
)
def test_a_result_without_axes_is_a_number_where_it_is_one_in_numpy(call):
    found, expected = call(td), call(np)
    assert type(found) is type(expected)
    assert (found.dtype, found.shape) == (expected.dtype, ())
    assert found == expected


@cases("accuracy", ["componentwise", "normwise", 1e-5])
@cases(
    "contract",
    [
        td.matmul,
        lambda a, b, **given: td.tensordot(a, b, 1, **given),
        lambda a, b, **given: td.einsum("ij,jk", a, b, **given),
    ],
)
def test_an_accuracy_is_that_of_gemm(contract, accuracy):
    a, b = (random_matrix(9, 9, phi=2.0, seed=seed) for seed in (1, 2))
    found = contract(a, b, accuracy=accuracy)
    assert same_bits(found, td.gemm(a, b, accuracy=accuracy))
    norms = np.outer(*(np.linalg.norm(x, axis=i) for x, i in ((a, 1), (b, 0))))
    error = (abs(found - a @ b) / norms).max()
    if accuracy == 1e-5:
        assert 1e-9 < error <= 3 * accuracy  # sqrt(k) eps; not that of another
    else:
        assert error <= 1e-14


A, B = random_matrix(3, 4), random_matrix(4, 5)
LISTS = [
    (A, [0, 1], B, [1, 2]),
    (A, [0, 1], B, [1, 2], [2, 0]),
    (A, [30, 1], B, [1, 2]),
    (A, [..., 1], B, [1, 2], [..., 2]),
    (A, [0, 1], [1]),
    (A, (0, 1)),
]


@cases("given", LISTS)
def test_lists_of_numbers_stand_for_letters_as_in_numpy(given):
    expected, found = np.einsum(*given), td.einsum(*given, method="2m")
    assert found.shape == expected.shape
    assert np.allclose(found, expected)


def test_lists_may_have_more_axes_than_there_are_letters():
    found = td.einsum(A, [60, 1], B, [1, 5000])
    assert np.array_equal(found, td.matmul(A, B))
    assert np.array_equal(td.einsum(A, [5000, 60]), A.T)


def test_the_products_of_a_path_may_be_limited():
    x, y, z = random_matrix(3, 9), random_matrix(9, 4), random_matrix(4, 9)
    for how in (("greedy", 10**6), ["optimal", 1e3], ("greedy", 10**40)):
        found = td.einsum("ij,jk,kl->il", x, y, z, optimize=how)
        assert np.allclose(found, x @ y @ z)
        assert np.allclose(td.einsum("ij,jk", x, y, optimize=how), x @ y)


WHOLE = np.arange(-12, 12).reshape(4, 3, 2), np.arange(40).reshape(4, 2, 5)
LAST = [(-2, -1)] * 3
OPTIONS = [
    lambda lib, x, y: lib.matmul(x, y, dtype="f4", casting="unsafe"),
    lambda lib, x, y: lib.matmul(x, y, dtype="c8"),
    lambda lib, x, y: lib.matmul(x, y, dtype="f8", order="F"),
    lambda lib, x, y: lib.matmul(x[0], y[0], order="F"),
    lambda lib, x, y: lib.matmul(
        x[0].T, y[0].T, order="A", axes=[(1, 0), (1, 0), (0, 1)]
    ),
    lambda lib, x, y: lib.matmul(x.T, y.T, axes=[(1, 0), (1, 0), (2, 0)]),
    lambda lib, x, y: lib.matmul(x, y[0, :, 0], axes=[(1, 2), 0, 0]),
    lambda lib, x, y: lib.matmul(y[0, 0], y[0, 1], axes=[0, 0, ()]),
    lambda lib, x, y: lib.matmul(
        x, y, np.empty((3, 4, 5), int), axes=[*LAST[1:], (0, 2)]
    ),
    lambda lib, x, y: lib.einsum("bij,bjk->ik", x, y, dtype="f8"),
    lambda lib, x, y: lib.einsum("bij,bjk->bik", x, y, dtype="f4", casting="unsafe"),
    lambda lib, x, y: lib.einsum(x, [0, 1, 2], y, [0, 2, 3], [3, 1], dtype=complex),
    lambda lib, x, y: lib.einsum("bij,bjk->bik", x, y, order="F"),
    lambda lib, x, y: lib.einsum("bij->", x, dtype="f8"),
]


@cases("call", OPTIONS)
def test_options_of_numpy_are_taken_under_its_names(call):
    expected, found = call(np, *WHOLE), call(td.numpy, *WHOLE)
    assert (found == expected).all()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if found.ndim == 2:
        assert found.flags.f_contiguous == expected.flags.f_contiguous
