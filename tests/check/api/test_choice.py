"""Options that contradict each other, words of others, and routines that are given."""

from functools import partial

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.errors import AccuracyError, ArgumentError, PlanError


@cases(
    ("options", "by_entries", "asked"),
    [
        ({}, True, "accuracy componentwise"),
        ({"accuracy": "normwise"}, False, "accuracy normwise"),
        ({"accuracy": np.float32(0.25)}, False, "accuracy 0.25"),
        ({"num_moduli": np.int64(9)}, False, "9 moduli"),
        ({"method": "blas"}, False, "the native product"),
        ({"equilibrate": np.True_}, True, "accuracy componentwise"),
    ],
)
def test_what_is_asked_for_is_told(options, by_entries, asked):
    a = random_matrix(5, 5)
    assert td.explain(td.gemm, a, a, **options).asked == asked
    assert td.plan(td.gemm, a, a, **options).by_entries == by_entries


@cases(
    ("kind", "code", "options"),
    [
        (AccuracyError, "method", {"method": "native"}),
        (AccuracyError, "method", {"method": []}),
        (AccuracyError, "accuracy", {"accuracy": "exact"}),
        (AccuracyError, "accuracy-twice", {"accuracy": 0.1, "num_moduli": 3}),
        (AccuracyError, "native-accuracy", {"method": "blas", "num_moduli": 3}),
        (AccuracyError, "num-moduli", {"num_moduli": True}),
        (PlanError, "engine", {"engine": np.ones(2)}),
        (PlanError, "equilibrate", {"equilibrate": 1}),
        (PlanError, "equilibrate", {"equilibrate": True, "method": "blas"}),
    ],
)
def test_contradictions_are_refused(kind, code, options):
    for _ in range(2):
        with raises(kind, code):
            td.gemm([[1.0]], [[1.0]], **options)


# --- routines that are given --------------------------------------------------------


def test_what_is_given_is_a_routine():
    for given in ("herk", None, np.matmul, td.transpose, int, np.eye(3), (3, 3)):
        for call in (td.plan, td.explain):
            with raises(PlanError, "routine") as caught:
                call(given, (3, 3), (3, 3))
            assert "td." in caught.value.remedy
    with raises(PlanError, "routine"):
        td.Product((3, 3), routine="herk")
    with raises(ArgumentError, "by-position"):
        td.explain(td.gemm, *[(3, 3)] * 4)


def test_python_s_own_errors_become_sentences():
    a = np.eye(3)
    for code, call in (
        ("unknown-option", lambda: td.syrk(a, tile=3)),
        ("unknown-option", lambda: td.integers.gemm(a, a, accuracy=1e-3)),
        ("by-position", lambda: td.zherk(a, a, a)),
        ("twice", lambda: td.gemm(a, a, B=a)),
        ("no-b", lambda: td.gemm(a)),
        ("no-dim", lambda: td.xarray.herk(a)),
        ("not-a-path", lambda: td.multiply_files(a, a, "C.npy")),
        ("not-a-path", lambda: td.update_files(td.herk, "A.npy", None)),
    ):
        with raises(ArgumentError, code):
            call()
    with raises(ArgumentError, "unknown-option") as caught:
        td.plan(td.syrk, (3, 3), workers=3)
    assert "syrk takes no 'workers'" in caught.value.problem
    assert "n_workers" in caught.value.remedy


def test_words_of_other_libraries_are_answered_with_ours():
    a = np.eye(3)
    for meant, call in (
        ("op_a,", lambda: td.gemm(a, a, trans="T")),
        ("op_b,", lambda: td.gemm(a, a, transb="T")),
        ("op,", lambda: td.herk(a, trans="C")),
        ("uplo,", lambda: td.syrk(a, lower=True)),
        ("accuracy,", lambda: td.gemm(a, a, rtol=1e-6)),
        ("num_moduli,", lambda: td.gemm(a, a, num_modul=3)),
        ("uplo='lower'", lambda: td.herk(a, uplo="L")),
        ("op='C'", lambda: td.herk(a, op="H")),
        ("method='2m'", lambda: td.gemm(a, a, method="2M")),
        ("accuracy=1e-6", lambda: td.gemm(a, a, accuracy="1e-6")),
        ("componentwise", lambda: td.gemm(a, a, accuracy="zgemm")),
    ):
        with pytest.raises((ArgumentError, PlanError)) as caught:
            call()
        assert meant in caught.value.remedy
    with raises(PlanError, "op_a") as refused:
        td.gemm(a, a, op_a="")
    assert not refused.value.remedy


def test_sizes_of_memory_are_read_as_dask_reads_them():
    given = (3000, 3000), (3000, 3000)
    plans = [td.plan(td.gemm, *given, memory_limit=x) for x in ("2 GiB", 2**31)]
    assert (
        plans[0] == plans[1] == td.plan(td.gemm, *map(list, given), memory_limit=2**31)
    )


def test_plans_and_explanations_take_arrays_shapes_and_paths(tmp_path):
    path, a = tmp_path / "A.npy", random_matrix(30, 20, "complex64")
    np.save(path, a)
    whole = td.plan(td.gemm, a, a, op_b="C")
    for given in ((path, path), (a, a.shape), (str(path), a)):
        assert td.plan(td.gemm, *given, op_b="C").to_json() == whole.to_json()
    explained = td.explain(td.gemm, a, a, op_b="C")
    assert str(td.explain(td.gemm, path, a, op_b="C")) == str(explained)
    unseen = td.explain(td.gemm, path, a.shape, op_b="C")
    assert (unseen.num_moduli, unseen.rho) == (8, 0)


def test_c_is_a_matrix_like_others():
    a, c = random_matrix(9, 5, "complex64"), np.eye(9)
    with_c = td.plan(td.herk, a, c, beta=2, alpha=0.5)
    assert with_c.dtype == "complex128"
    shaped = td.plan(td.herk, a.shape, c.shape, beta=2, dtype="complex128")
    assert shaped.to_json() == with_c.to_json()
    assert td.explain(td.herk, a, c, beta=2).num_moduli > 9
    assert td.explain(td.herk, a, beta=2).num_moduli <= 9
    with raises(PlanError, "no-beta"):
        td.plan(td.herk, a, c)


def test_files_are_multiplied_by_the_routine_that_is_given(here):
    a = np.random.default_rng(0).integers(-99, 99, (12, 12)).astype(np.int16)
    np.save("A.npy", a)
    exactly = td.multiply_files("A.npy", "A.npy", "C.npy", routine=td.integers.gemm)
    assert (np.load("C.npy") == a.astype(int) @ a).all()
    assert "exact" in exactly.explanation.asked
    td.update_files(td.zherk, "A.npy", "H.npy")
    assert same_bits(np.load("H.npy"), td.zherk(a))
    given = td.zherk, "A.npy", "H.npy"
    own = {"uplo": "lower", "verify": True, "chunks": 4}
    assert td.plan(td.update_files, *given, **own).tile_shape == (4, 4, 4)
    explained = td.explain(td.update_files, *given, **own)
    assert explained == td.explain(td.zherk, "A.npy", uplo="lower")


def ask(function, *given, **options):
    return [partial(way, function, *given, **options) for way in (td.plan, td.explain)]


def test_what_would_be_ignored_is_refused(here):
    a = np.eye(3)
    np.save("A.npy", a)
    files = partial(td.multiply_files, "A.npy", "A.npy", "C.npy")
    update = partial(td.update_files, overwrite=True)
    names, both = ["A.npy"] * 2, {"b": "A.npy"}
    mixed = partial(update, td.herk, "A.npy", "H.npy", **both)
    for error, code, *calls in (
        (ArgumentError, "arguments", *ask(td.multiply_files, "A.npy")),
        (
            ArgumentError,
            "unknown-option",
            *ask(td.multiply_files, *names, uplo=1),
        ),
        (
            ArgumentError,
            "unknown-option",
            mixed,
        ),
        (PlanError, "routine", *ask(td.update_files, td.twofold.herk, "A.npy")),
        (PlanError, "routine", lambda: update(td.twofold.herk, "A.npy", "H.npy")),
        (PlanError, "routine", lambda: update(td.zgemm, "A.npy", "H.npy", **both)),
        (PlanError, "routine", lambda: files(routine=td.her2k)),
        (ArgumentError, "no-b", lambda: update(td.her2k, "A.npy", "H.npy")),
        (ArgumentError, "two-b", lambda: td.Product((3, 3), (5, 5), routine=td.herk)),
        (ArgumentError, "two-b", lambda: td.Product((3, 3), (3, 3), C="text")),
        (ArgumentError, "dtype", lambda: td.Product((3, 3), (3, 3), "text")),
        (ArgumentError, "out", *ask(td.gemm, a, a, out=a)),
        (PlanError, "cluster", lambda: td.plan(td.herk, a, n_workers=np.ones(2))),
        (PlanError, "not-two-dimensional", lambda: td.Product(np.array(1.0), a.shape)),
        (PlanError, "verify", lambda: files(verify="no")),
        (ArgumentError, "progress", lambda: files(progress=5)),
        (ArgumentError, "axes", lambda: td.tensordot(a, a, axes=np.array(1.0))),
    ):
        for call in calls:
            with raises(error, code):
                call()
    assert sorted(x.name for x in here.iterdir()) == ["A.npy"]


def test_an_explanation_does_not_refuse_what_is_computed():
    a = np.ldexp(1.0, np.arange(-500, 500, 40)).reshape(5, 5) * np.ones((5, 5))
    for options in ({"num_moduli": 20}, {"accuracy": "normwise"}):
        td.twofold.gemm(a, a, **options)
        assert td.explain(td.twofold.gemm, a, a, **options).rho >= 1
