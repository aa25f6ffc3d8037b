"""Refusals of the public functions: each with a code, before anything is written."""

import pickle
import warnings
from functools import partial
from inspect import signature

import dask.array as da
import numpy as np
import pytest
from distributed.core import error_message
from distributed.protocol.pickle import loads

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist import errors
from twom_dist.errors import AccuracyError, ArgumentError, PlanError

A, PATHS = np.eye(3), ("A.npy", "A.npy")
SHAPE, LAZY = (3, 3), da.from_array(A)
SINGLE = A.astype("f4")
files = partial(td.multiply_files, *PATHS, "C.npy")
update = partial(td.rank_k_files, overwrite=True)

REFUSED = {
    AccuracyError: [("method", lambda: td.twofold.gemm(A, A, method="blas"))],
    PlanError: [
        ("engine", lambda: td.gemm(A, A, engine=np.ones(2))),
        ("equilibrate", lambda: td.gemm(A, A, equilibrate=True, method="blas")),
        ("equilibrate", lambda: td.plan(td.herk, A, equilibrate=True)),
        ("overwrite", lambda: files(overwrite="no")),
        ("stack-shapes", lambda: td.gemm(np.ones((2, 3, 3)), np.ones((3, 3, 3)))),
        ("twofold-dtype", lambda: td.twofold.gemm(SINGLE, SINGLE)),
        ("shapes-do-not-fit", lambda: td.testing.residual(A, 3, A)),
        ("shapes-do-not-fit", lambda: td.testing.residual(A, A, A[:2])),
        ("out", lambda: td.gemm(A, A, out="dd")),
        ("out", lambda: td.gemm(LAZY, A, out=np.ones(SHAPE))),
        ("out", lambda: td.syrk(np.ones((2, 3, 3)), out=np.ones(SHAPE))),
        # What is no routine, or none of files.
        ("routine", lambda: td.plan(td.rank_k_files, td.twofold.herk, "A.npy")),
        ("routine", lambda: td.plan(np.eye(3).dot, (3, 3))),
        ("routine", lambda: update(partial(td.herk), "A.npy", "H.npy")),
        ("routine", lambda: update(td.twofold.herk, "A.npy", "H.npy")),
        ("routine", lambda: update(td.zgemm, "A.npy", "H.npy", b="A.npy")),
        ("routine", lambda: files(routine=td.her2k)),
        ("routine", lambda: files(routine=td.twofold.gemm)),
    ],
    ArgumentError: [
        ("unknown-option", lambda: td.integers.gemm(A, A, accuracy=1e-3)),
        ("unknown-option", lambda: td.plan(td.multiply_files, *PATHS, uplo=1)),
        ("two-b", lambda: update(td.herk, "A.npy", "H.npy", b="A.npy")),
        ("unknown-option", lambda: td.gemm(A, A, weights=[1, 2])),
        ("by-position", lambda: td.zherk(A, A, A)),
        ("by-position", lambda: td.matmul(A, A, A)),
        ("by-position", lambda: td.explain(td.gemm, *[SHAPE] * 4)),
        ("no-b", lambda: td.plan(td.multiply_files, "A.npy")),
        ("no-a", lambda: td.plan(td.multiply_files)),
        ("arguments", lambda: td.plan(td.multiply_files, *PATHS, "C.npy", "D.npy")),
        ("no-b", lambda: update(td.her2k, "A.npy", "H.npy")),
        ("no-dim", lambda: td.xarray.herk(A)),
        ("not-a-path", lambda: td.multiply_files(A, A, "C.npy")),
        ("not-a-path", lambda: td.rank_k_files(td.herk, "A.npy", None)),
        ("dtype", lambda: td.plan(td.gemm, SHAPE, SHAPE, dtype="text")),
        ("out", lambda: td.explain(td.gemm, A, A, out=A)),
        ("progress", lambda: files(progress=5)),
        ("axes", lambda: td.tensordot(A, A, axes=np.array(1.0))),
    ],
}


ROWS = [(kind, *row) for kind, rows in REFUSED.items() for row in rows]


@cases(("kind", "code", "call"), ROWS)
def test_each_has_its_code_and_nothing_is_written(here, kind, code, call):
    np.save("A.npy", A)
    with raises(kind, code):
        call()
    assert [x.name for x in here.iterdir()] == ["A.npy"]


@cases("way", [td.plan, td.explain])
@cases("given", ["herk", None, np.matmul, td.transpose, int, A, lambda A: A])
def test_what_is_no_routine(given, way):
    with raises(PlanError, "routine") as caught:
        way(given, SHAPE, SHAPE)
    assert "td." in caught.value.remedy


@cases(
    ("meant", "call"),
    [
        ("op_a,", lambda: td.gemm(A, A, trans="T")),
        ("accuracy,", lambda: td.gemm(A, A, rtol=1e-6)),
        ("num_moduli,", lambda: td.gemm(A, A, num_modul=3)),
        ("uplo='lower'", lambda: td.herk(A, uplo="L")),
        ("accuracy=1e-6", lambda: td.gemm(A, A, accuracy="1e-6")),
        ("diag", lambda: td.herk(A, diagonal=[1, 2, 3])),
        ("td.gemm,", lambda: td.plan(np.matmul, SHAPE, SHAPE)),
        ("td.gemm with method='auto'", lambda: td.explain(td.einsum, "ij,jk", A, A)),
    ],
)
def test_words_of_other_libraries_are_answered_with_ours(meant, call):
    with pytest.raises((ArgumentError, PlanError)) as caught:
        call()
    assert meant in caught.value.remedy


@cases("kind", [x for x in map(vars(errors).get, errors.__all__) if "Error" in str(x)])
def test_an_error_is_its_problem_remedy_and_code_wherever_it_is_sent(kind):
    error = kind("cannot write 'C'", "Create the folder first", "no-folder")
    assert str(error) == "cannot write 'C'. Create the folder first."
    assert (error.remedy, error.code) == ("Create the folder first", "no-folder")
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found)) == (kind, str(error))
    assert found.__dict__ == error.__dict__
    try:
        raise error from OSError(28, "no space")
    except errors.TwomError as caught:
        found = loads(error_message(caught)["exception"].data)
    assert (type(found), found.code) == (kind, "no-folder")


def list_functions():
    """List all that is public and called, but the classes of results."""
    for module in (td, td.integers, td.numpy, td.testing, td.twofold, td.xarray):
        for name in module.__all__:
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type):
                yield name, function


@cases(("name", "function"), list_functions())
def test_every_function_refuses_a_misspelt_option_in_its_name(name, function):
    # Routines of others have their options.
    first = {td.plan: td.gemm, td.explain: td.gemm, td.rank_k_files: td.herk}
    files = ("a", "b", "c")[: 2 if function is td.rank_k_files else 3]
    given = files if "files" in name else ()
    given = (*([first[function]] if function in first else ()), *given)
    with raises(ArgumentError, "unknown-option") as caught:
        function(*given, accurac=1e-3)
    assert " has no option 'accurac'" in caught.value.problem
    if "accuracy" in signature(function).parameters or given:
        assert caught.value.remedy.startswith("Did you mean accuracy? ")


def test_moduli_that_keep_hardly_a_digit_say_so():
    x = np.eye(3) + 0j
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is kept of this call warns again
        td.gemm(x, x, num_moduli=2, alpha=0.3)
    with pytest.warns(errors.AccuracyWarning, match="num_moduli=2 keeps less than"):
        td.gemm(x, x, num_moduli=2, alpha=0.3)
    td.gemm(x, x, num_moduli=4, alpha=0.3)
