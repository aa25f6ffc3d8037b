"""What contractions refuse, each in one sentence and by a code."""

import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import AccuracyError, ArgumentError, PlanError

A, B, V = np.ones((2, 3)), np.ones((3, 4)), np.ones(3)
STACK = np.ones((5, 3, 4))

LAZY = [da.from_array(x, chunks=2) for x in (A, B)]

CALLS = [
    (PlanError, "subscripts", lambda: td.einsum("i1,jk", A, B)),
    (PlanError, "subscripts", lambda: td.einsum("i..j,jk", A, B)),
    (PlanError, "subscripts", lambda: td.einsum("...j,jk->k", A, B)),
    (PlanError, "operand-count", lambda: td.einsum("ij,jk", A)),
    (PlanError, "operand-axes", lambda: td.einsum("ij,jkl", A, B)),
    (PlanError, "letter-sizes", lambda: td.einsum("ij,ik", A, B)),
    (PlanError, "letter-sizes", lambda: td.einsum("ij,ik", *LAZY)),
    (PlanError, "letter-sizes", lambda: td.einsum("ii", A)),
    (PlanError, "letter-sizes", lambda: td.einsum("ij,jk,ik", A, B, B)),
    (PlanError, "output-letter", lambda: td.einsum("ij,jk->il", A, B)),
    (PlanError, "output-letter", lambda: td.einsum("ij,jk->ii", A, B)),
    (PlanError, "shapes", lambda: td.matmul(A, A)),
    (PlanError, "shapes", lambda: td.matmul(np.ones((2, 1)), B)),
    (PlanError, "no-axes", lambda: td.matmul(A, 2.0)),
    (PlanError, "stack-shapes", lambda: td.matmul(np.ones((2, 4, 3)), STACK)),
    (PlanError, "shapes", lambda: td.tensordot(A, A, 1)),
    (PlanError, "axes", lambda: td.tensordot(A, B, 3)),
    (PlanError, "axes", lambda: td.tensordot(A, B, ([2], [0]))),
    (PlanError, "axes", lambda: td.tensordot(A, B, ([1, 0], [0]))),
    (PlanError, "axes", lambda: td.tensordot(A, A, ([1, 1], [1, 1]))),
    (ArgumentError, "axes", lambda: td.tensordot(A, B, "ij")),
    (ArgumentError, "axes", lambda: td.tensordot(A, B, 1.5)),
    (PlanError, "shapes", lambda: td.numpy.vecdot(A, B)),
    (PlanError, "axes", lambda: td.numpy.vecdot(A, A, axis=2)),
    (ArgumentError, "subscripts", lambda: td.einsum(b"ij,jk", A, B)),
    (PlanError, "axes", lambda: td.transpose(A, (0, 0))),
    (ArgumentError, "subscripts", lambda: td.einsum(A, A)),
    (ArgumentError, "subscripts", lambda: td.einsum(A, [0, "i"], B, ["i", 2])),
    (PlanError, "axes", lambda: td.tensordot(*[np.ones((1,) * 40)] * 2, 0)),
    (PlanError, "operand-axes", lambda: td.einsum(A, [0], B, [1, 2])),
    (PlanError, "output-letter", lambda: td.einsum(A, [0, 1], [2])),
    (ArgumentError, "dtype", lambda: td.matmul(A.astype(object), B)),
    (ArgumentError, "dtype", lambda: td.einsum("i", ["a", "b"])),
    (ArgumentError, "masked", lambda: td.matmul(np.ma.array(A), B)),
    (ArgumentError, "not-a-matrix", lambda: td.matmul([[1, 2], [3]], A)),
    (PlanError, "out", lambda: td.matmul(A, B, out=np.empty((2, 3)))),
    (PlanError, "out", lambda: td.einsum("ij", A, out=A)),
    (PlanError, "out", lambda: td.einsum("ij,jk,lk", A, B, B, out=np.empty((2, 2)))),
    (PlanError, "out", lambda: td.einsum("ij,jk", A, B, out=np.empty((2, 4), "c8"))),
    (ArgumentError, "out", lambda: td.matmul(A, B, out=[1])),
    (PlanError, "out", lambda: td.matmul(da.ones((2, 3)), B, out=np.empty((2, 4)))),
    (PlanError, "path", lambda: td.einsum("i,i,i", V, V, V, optimize=[(0, 3)])),
    (PlanError, "path", lambda: td.einsum("i,i,i", V, V, V, optimize=[(0, 1)])),
    (PlanError, "path", lambda: td.einsum("i,i,i", V, V, V, optimize="fastest")),
    (PlanError, "path", lambda: td.einsum("ij,jk", A, B, optimize=("greedy", "max"))),
    (PlanError, "path", lambda: td.einsum("ij", A, optimize=3)),
    (ArgumentError, "unknown-option", lambda: td.numpy.matmul(A, B, casting="safe")),
    (PlanError, "method", lambda: td.matmul(A, B, method="5m")),
    # Whatever is multiplied.
    (AccuracyError, "method", lambda: td.einsum("ij->ji", A, method="foo")),
    (AccuracyError, "method", lambda: td.matmul([[1]], [[1]], method="foo")),
    (AccuracyError, "accuracy", lambda: td.matmul([[1]], [[1]], accuracy="exact")),
]


@cases(("error", "code", "call"), CALLS)
def test_calls_that_do_not_fit(error, code, call):
    with raises(error, code):
        call()
