"""Results of contractions: as accurate as is asked for, and numbers as NumPy's."""

import numpy as np

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.strategies import random_matrix

CONTRACTIONS = [
    (td.matmul, (), ()),
    (td.tensordot, (), (1,)),
    (td.einsum, ("ij,jk",), ()),
]


@cases("accuracy", ["componentwise", "normwise", 1e-5])
def test_an_accuracy_is_that_of_gemm(accuracy):
    a, b = (random_matrix(9, 9, phi=2.0, seed=seed) for seed in (1, 2))
    expected = td.gemm(a, b, accuracy=accuracy)
    for contract, before, after in CONTRACTIONS:
        assert same_bits(contract(*before, a, b, *after, accuracy=accuracy), expected)
    norms = np.outer(*(np.linalg.norm(x, axis=i) for x, i in ((a, 1), (b, 0))))
    error = (abs(expected - a @ b) / norms).max()
    # sqrt(k) eps; not that of another accuracy.
    low, high = (1e-9, 3e-5) if accuracy == 1e-5 else (0, 1e-14)
    assert low < error <= high


A, B = random_matrix(3, 4), random_matrix(4, 5)
LISTS = [
    (A, [0, 1], B, [1, 2]),
    (A, [0, 1], B, [1, 2], [2, 0]),
    (A, [30, 1], B, [1, 2]),
    (A, [..., 1], B, [1, 2], [..., 2]),
    (A, [0, 1], [1]),
    (A, (0, 1)),
]


def test_lists_of_numbers_stand_for_letters_as_in_numpy():
    for given in LISTS:
        expected, found = np.einsum(*given), td.einsum(*given, method="2m")
        assert found.shape == expected.shape
        assert np.allclose(found, expected)
    # There may be more axes than letters.
    assert np.array_equal(td.einsum(A, [60, 1], B, [1, 5000]), td.matmul(A, B))
    assert np.array_equal(td.einsum(A, [5000, 60]), A.T)


WHOLE = np.arange(-12, 12).reshape(4, 3, 2), np.arange(40).reshape(4, 2, 5)
LAST = [(-2, -1)] * 3
AXES = [(1, 0), (1, 0), (0, 1)]
X, Y = WHOLE
OPTIONS = [
    ("matmul", (X, Y), {"dtype": "f4", "casting": "unsafe"}),
    ("matmul", (X, Y), {"dtype": "c8"}),
    ("matmul", (X, Y), {"dtype": "f8", "order": "F"}),
    ("matmul", (X[0], Y[0]), {"order": "F"}),
    ("matmul", (X[0].T, Y[0].T), {"order": "A", "axes": AXES}),
    ("matmul", (X.T, Y.T), {"axes": [(1, 0), (1, 0), (2, 0)]}),
    ("matmul", (X, Y[0, :, 0]), {"axes": [(1, 2), 0, 0]}),
    ("matmul", (Y[0, 0], Y[0, 1]), {"axes": [0, 0, ()]}),
    ("matmul", (X, Y, np.empty((3, 4, 5), int)), {"axes": [*LAST[1:], (0, 2)]}),
    ("einsum", ("bij,bjk->ik", X, Y), {"dtype": "f8"}),
    ("einsum", ("bij,bjk->bik", X, Y), {"dtype": "f4", "casting": "unsafe"}),
    ("einsum", (X, [0, 1, 2], Y, [0, 2, 3], [3, 1]), {"dtype": complex}),
    ("einsum", ("bij,bjk->bik", X, Y), {"order": "F"}),
    ("einsum", ("bij->", X), {"dtype": "f8"}),
]


@cases(("name", "given", "options"), OPTIONS)
def test_options_of_numpy_are_taken_under_its_names(name, given, options):
    expected = getattr(np, name)(*given, **options).copy("K")
    found = getattr(td.numpy, name)(*given, **options)
    assert (found == expected).all()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if found.ndim == 2:
        assert found.flags.f_contiguous == expected.flags.f_contiguous
