"""Plans and explanations of contractions, by the names and arguments of their calls."""

from functools import partial

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
    (td.einsum, ("ij,jk->ik", A, B), MATRIX),
    (td.einsum, ("ij,jk->ki", A, B), MATRIX),
    (td.einsum, (A, [0, 1], B, [1, 2], [0, 2]), MATRIX),
    (td.einsum, ("abk,kj->abj", T, B), (td.gemm, (T.reshape(60, 50), B), {})),
    (td.einsum, ("ij,kj->ik", A, A), (td.syrk, (A,), {})),
    (td.einsum, ("ij,kj->ik", A, A.conj()), (td.herk, (A,), {})),
    (td.einsum, ("ik,k,kj->ij", A, W, B), (td.gemm, (A, B), {"diag": W})),
    (td.tensordot, (A, B, 1), MATRIX),
    (td.tensordot, (A, B, (1, 0)), MATRIX),
    (td.tensordot, (T, T, ([0, 2], [0, 2])), None),
    (td.numpy.tensordot, (T, B, 1), (td.gemm, (T.reshape(60, 50), B), {})),
]
# As gemm has it: through int8, whatever the size.
INT8 = {"method": "2m"}


@cases(("function", "given", "expected"), [x for x in CALLS if x[2]])
def test_a_contraction_is_explained_as_the_call_that_it_makes(
    function, given, expected
):
    routine, matrices, options = expected
    found = td.explain(function, *given, **INT8)
    assert found == td.explain(routine, *matrices, **options)
    plan = td.plan(function, *given, **INT8)
    assert plan == td.plan(routine, *matrices, **options)


@cases(("function", "given", "expected"), CALLS)
def test_arrays_of_dask_are_planned_as_they_are_multiplied(function, given, expected):
    lazy = [da.from_array(x, chunks=25) if hasattr(x, "shape") else x for x in given]
    found = td.explain(function, *lazy, **INT8)
    x = td.explain(function, *given, **INT8)
    # The conjugate is another dask array, and no update.
    if expected is None or expected[0] is not td.herk:
        assert found.routine == td.plan(function, *lazy, **INT8).routine == x.routine
    assert found.num_moduli == x.num_moduli


@cases(("function", "given", "expected"), [x for x in CALLS if x[2]])
def test_shapes_stand_for_operands(function, given, expected):
    routine, matrices, options = expected
    if routine in (td.herk, td.syrk):
        return  # of one array twice, which shapes do not tell
    shapes = [x.shape if hasattr(x, "shape") else x for x in given]
    outlines = [x.shape for x in matrices]
    options = {x: y.shape if x == "diag" else y for x, y in options.items()}
    for way in (td.plan, td.explain):
        known = way(routine, *outlines, **options)
        # Weights of real shapes are complex, as all else is.
        assert way(function, *shapes, **INT8).routine == known.routine
    plan = partial(td.plan, chunks=20, n_workers=2, dtype="complex64")
    found = plan(function, *shapes, **INT8)
    assert found == plan(routine, *outlines, **options)
    big = td.plan(td.einsum, "ik,jk->ij", (65536, 70000), (80000, 70000), **INT8)
    assert big.shape == (65536, 80000, 70000)
    # The dtype is that of an array beside them.
    beside = td.plan(td.matmul, A.astype("complex64"), (50, 40), **INT8)
    assert beside.dtype == "complex64"


def test_the_choice_is_told_under_the_name_that_was_called():
    with dask.config.set({"twom-dist.blas-below": 5}):
        found = td.explain(td.einsum, "ij,jk->ik", A, B)
        assert found.choice.startswith("int8: size 16 is at least 5")
    with dask.config.set({"twom-dist.blas-below": 50}):
        for function in (td.matmul, td.numpy.dot):
            found = td.explain(function, A, B)
            assert found.choice.startswith("native: size 16 is below 50")
    stack = np.stack([A, A])
    plan = td.plan(td.numpy.vecdot, stack, stack, **{})
    assert plan.stack == (2, 60)


REFUSED = [
    (
        PlanError,
        "products",
        ("ij,jk,kl->il", A, B, B.T),
        {"optimize": [(0, 1), (0, 1)]},
    ),
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
