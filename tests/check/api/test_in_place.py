"""Results that are written over C itself."""

from functools import partial

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.strategies import random_matrix

CALLS = [
    ("gemm", 2, {"op_b": "C"}),
    *(("herk", 1, {"uplo": uplo}) for uplo in ("full", "lower", "upper")),
    *((name, 2, {"uplo": "lower"}) for name in ("her2k", "syr2k")),
    ("syrk", 1, {}),
    ("gemm", 2, {"op_b": "C", "method": "blas"}),
]


def matrices():
    return [random_matrix(23, 17, "complex128", 1.0, seed) for seed in (1, 2)]


@cases("where", [np.s_[:, :23], np.s_[:, 2:48:2], np.s_[::-1, 22::-1]])
@cases("tile", [64, 10])
@cases(("name", "count", "options"), CALLS)
def test_a_matrix_is_updated_where_it_lies(name, count, options, tile, where):
    given = matrices()[:count]
    given[0][2, 3], given[-1][5, 1] = np.nan, np.inf
    whole = np.repeat(random_matrix(23, 25, seed=3), 2, axis=1)
    C, kept = whole[where], whole.copy()
    options = options | {"alpha": -1, "beta": 2.0}
    call = partial(getattr(td, name), *given, **options)
    with dask.config.set({"twom-dist.largest-tile": tile}):
        kept[where] = call(C=C.copy())
        # The same entries, whether or not by the same object.
        assert call(C=whole[where], out=C) is C
    assert whole.tobytes() == kept.tobytes()


@pytest.mark.parametrize("num_moduli", [None, 9])
def test_matrices_of_a_stack_are_updated_where_they_lie(num_moduli):
    A, C = random_matrix(69, 17, "complex64").reshape(3, 23, 17), np.ones((3, 23, 23))
    C = C.astype("complex64")
    call = partial(td.herk, A, beta=0.5, num_moduli=num_moduli)
    expected = call(C=C.copy())
    assert call(C=C, out=C) is C
    assert C.tobytes() == expected.tobytes()


def test_a_product_updates_a_matrix_where_it_lies():
    A, B = matrices()
    C = random_matrix(23, 23, seed=9)
    product = td.Product(A.shape, B.shape, op_b="C", beta=0.5)
    for _ in range(2):
        expected = product(A, B, C)
        assert product(A, B, C, out=C) is C
        assert C.tobytes() == expected.tobytes()
