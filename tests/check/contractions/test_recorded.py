"""Plans and explanations of contractions, by the names and arguments of their calls."""

import dask
import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.errors import ArgumentError, PlanError

A, B = random_matrix(60, 50), random_matrix(50, 40, seed=1)
T = random_matrix(10, 300, seed=2).reshape(10, 6, 50)
W = np.linspace(1.0, 2.0, 50)
MATRIX = td.gemm, (A, B), {}
# A call, and what it is to gemm or to an update.
CALLS = [
    (td.matmul, (A, B), MATRIX),
    (td.matmul, (A, B[:, 0]), (td.gemm, (A, B[:, 0][None]), {"op_b": "T"})),
    (td.einsum, ("ij,jk->ki", A, B), MATRIX),
    (td.einsum, (A, [0, 1], B, [1, 2], [0, 2]), MATRIX),
    (td.einsum, ("abk,kj->abj", T, B), (td.gemm, (T.reshape(60, 50), B), {})),
    (td.einsum, ("ij,kj->ik", A, A), (td.syrk, (A,), {})),
    (td.einsum, ("ij,kj->ik", A, A.conj()), (td.herk, (A,), {})),
    (td.einsum, ("ik,k,kj->ij", A, W, B), (td.gemm, (A, B), {"diag": W})),
    (td.tensordot, (A, B, (1, 0)), MATRIX),
    (td.numpy.tensordot, (T, B, 1), (td.gemm, (T.reshape(60, 50), B), {})),
]
# As gemm has it: through int8, whatever the size.
INT8 = {"method": "2m"}


@cases(("function", "given", "expected"), CALLS)
def test_a_contraction_is_planned_and_explained_as_the_call_that_it_makes(
    function, given, expected
):
    routine, matrices, options = expected
    known = td.explain(routine, *matrices, **options)
    assert td.explain(function, *given, **INT8) == known
    assert td.plan(function, *given, **INT8) == td.plan(routine, *matrices, **options)
    lazy = [da.from_array(x, chunks=25) if hasattr(x, "shape") else x for x in given]
    found = td.explain(function, *lazy, **INT8)
    assert found.num_moduli == known.num_moduli
    # The conjugate is another dask array, and no update.
    if routine is not td.herk:
        assert (
            found.routine == td.plan(function, *lazy, **INT8).routine == known.routine
        )
    # Shapes stand for operands, but of one array twice they do not tell.
    if routine is td.gemm:
        shapes = [x.shape if hasattr(x, "shape") else x for x in given]
        outlines = [x.shape for x in matrices]
        options = {x: y.shape if x == "diag" else y for x, y in options.items()}
        more = {"chunks": 20, "n_workers": 2, "dtype": "complex64"}
        found = td.plan(function, *shapes, **INT8, **more)
        assert found == td.plan(routine, *outlines, **options, **more)


def test_the_choice_is_told_under_the_name_that_was_called():
    for below, told in ((5, "int8: size 16 is at"), (50, "native: size 16 is below")):
        with dask.config.set({"twom-dist.blas-below": below}):
            for function in (td.matmul, td.numpy.dot):
                assert td.explain(function, A, B).choice.startswith(told)


REFUSED = [
    (PlanError, "products", ("ij,jk,kl->il", A, B, B.T), {"optimize": [(0, 1)] * 2}),
    (PlanError, "no-product", ("ij->ji", A), {}),
    (PlanError, "no-product", ("ij,ij->ij", A, A), {}),
    (PlanError, "no-product", ("i,j->ij", A[0], A[1]), {}),
    (PlanError, "letter-sizes", ("ij,jk->ik", A, A), {}),
    (PlanError, "dtype", ("ij,jk", *[np.eye(2, dtype=int)] * 2), {}),
    (ArgumentError, "unknown-option", ("ij,jk->ik", A, B), {"accurac": 1e-3}),
    (ArgumentError, "out", ("ij,jk->ik", A, B), {"out": np.empty((60, 40), complex)}),
]


@cases("way", [td.plan, td.explain])
@cases(("kind", "code", "given", "options"), REFUSED)
def test_what_is_no_single_product_is_refused(way, kind, code, given, options):
    with raises(kind, code):
        way(td.einsum, *given, **options)
    # Nothing is left behind.
    assert td.matmul(A, B, **INT8).shape == (60, 40)
