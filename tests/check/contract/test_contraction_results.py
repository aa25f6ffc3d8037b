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
