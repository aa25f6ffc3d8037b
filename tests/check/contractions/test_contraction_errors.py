"""What contractions refuse, each in one sentence and by a code."""

import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import AccuracyError, ArgumentError, PlanError

A, B, V = np.ones((2, 3)), np.ones((3, 4)), np.ones(3)
STACK = np.ones((5, 3, 4))

SUBSCRIPTS = [
    ("subscripts", "i1,jk", (A, B)),
    ("subscripts", "i..j,jk", (A, B)),
    ("subscripts", "...j,jk->k", (A, B)),
    ("operand-count", "ij,jk", (A,)),
    ("operand-axes", "ij,jkl", (A, B)),
    ("letter-sizes", "ij,ik", (A, B)),
    ("letter-sizes", "ii", (A,)),
    ("letter-sizes", "ij,jk,ik", (A, B, B)),
    ("output-letter", "ij,jk->il", (A, B)),
    ("output-letter", "ij,jk->ii", (A, B)),
]


@cases(("code", "subscripts", "operands"), SUBSCRIPTS)
def test_subscripts_that_do_not_fit(code, subscripts, operands):
    for made in (lambda x: x, lambda x: da.from_array(x, chunks=2)):
        with raises(PlanError, code):
            td.einsum(subscripts, *map(made, operands))


CALLS = [
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
    (ArgumentError, "subscripts", lambda: td.einsum(A, B)),
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
    (PlanError, "out", lambda: td.matmul(A, B, out=np.empty((2, 3)))),
    (ArgumentError, "out", lambda: td.matmul(A, B, out=[1])),
    (PlanError, "out", lambda: td.matmul(da.ones((2, 3)), B, out=np.empty((2, 4)))),
    (PlanError, "path", lambda: td.einsum("i,i,i", V, V, V, optimize=[(0, 3)])),
    (PlanError, "path", lambda: td.einsum("i,i,i", V, V, V, optimize=[(0, 1)])),
    (PlanError, "path", lambda: td.einsum("i,i,i", V, V, V, optimize="fastest")),
    (PlanError, "path", lambda: td.einsum("ij,jk", A, B, optimize=("greedy", "max"))),
    (PlanError, "path", lambda: td.einsum("ij", A, optimize=3)),
    (PlanError, "engine", lambda: td.matmul(A, B, engine="gpu")),
    (ArgumentError, "unknown-option", lambda: td.numpy.matmul(A, B, casting="safe")),
    (ArgumentError, "not-a-matrix", lambda: td.matmul([[1, 2], [3]], A)),
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
