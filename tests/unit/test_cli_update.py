"""herk, syrk, her2k and syr2k on the command line."""

import json

import numpy as np
import pytest
from click import UsageError

import twom_dist as td
from tests.command import K, M, contents, make, read, same_bits, save
from twom_dist.cli import main
from twom_dist.errors import ArgumentError, PlanError

HERE = ("--workers", "0", "--tile", "16")
ROUTINES = ["herk", "syrk", "her2k", "syr2k"]


@pytest.fixture
def second(tmp_path):
    """A matrix in the shape of A."""
    values = make(M, K, 3)
    save(tmp_path / "B.zarr", values)
    return values


@pytest.mark.parametrize("routine", ROUTINES)
def test_every_routine_is_a_command_with_all_options(call, a, second, routine):
    c = make(K, K, 5)
    np.save("C0.npy", c)
    save("C.zarr", np.eye(3))
    op = "C" if routine[:2] == "he" else "T"
    paths, matrices = ("A.npy", "B.zarr"), (a, second)
    if routine.endswith("k") and "2" not in routine:
        paths, matrices = paths[:1], matrices[:1]
    scalars = ("--alpha", "2", "--beta", "-0.5", "--c", "C0.npy", "--overwrite")
    options = ("--op", op, "--uplo", "lower", "--method", "3m", "--accuracy", "1e-10")
    flags = ("-o", "C.zarr", *scalars, *options, *HERE, "--progress")
    code, out, err = call(routine, *paths, *flags)
    assert (code, "3/3" in err, "GFLOP/s" in err) == (0, True, True)
    assert f"{routine}, 29 x 29 complex128, 2 x 2 tiles (k in 3), 3m with" in out
    options = {"op": op, "uplo": "lower", "method": "3m", "accuracy": 1e-10}
    expected = getattr(td, routine)(*matrices, c, alpha=2, beta=-0.5, **options)
    assert same_bits(read("C.zarr"), expected)


def test_help_and_plan_know_the_routines(call, a, second):
    assert set(ROUTINES) <= set(main.commands)
    code, out, _ = call("her2k", "--help")
    assert (code, "alpha A B^H + conj(alpha) B A^H + beta C0" in out) == (0, True)
    assert "[N|C]" in out
    flags = ("--uplo", "lower", "--worker-memory", "2GiB", "--workers", "2")
    code, out, _ = call("plan", "--shape-a", "9000,9000", "--routine", "syrk", *flags)
    assert (code, "syrk, lower" in out, "The first of" in out) == (0, True, True)
    two = ("A.npy", "B.zarr", "--routine", "her2k", "--json")
    plan = json.loads(call("plan", *two)[1])
    assert (plan["routine"], plan["m"], plan["k"]) == ("her2k", M, K)


UPDATE = ("A.npy", "-o", "C.npy", "--workers", "0")
REFUSALS = [
    (("herk", *UPDATE, "--alpha", "1j"), ArgumentError),
    (("herk", *UPDATE, "--c", "A.npy"), "no-beta"),
    (("herk", *UPDATE, "--beta", "1"), "no-c"),
    (("herk", *UPDATE, "--op", "T"), UsageError),
    (("syrk", *UPDATE, "--op", "C"), UsageError),
    (("her2k", *UPDATE), UsageError),
    (("herk", "B.zarr", *UPDATE), UsageError),
    (("syr2k", "A.npy", "B.zarr", "-o", "B.zarr"), "output-is-input"),
    (("plan", "A.npy", "--routine", "her2k"), "one-input"),
    (("plan", "A.npy", "B.zarr", "--routine", "herk"), "two-b"),
    (("plan", "A.npy", "--routine", "herk", "--op", "T"), PlanError),
    (("plan", "A.npy", "--routine", "herk", "--op-a", "T"), "unknown-option"),
    (("plan", "A.npy", "B.zarr", "--op", "T"), "unknown-option"),
    (("plan", "A.npy", "B.zarr", "--uplo", "full"), "unknown-option"),
]


def test_what_cannot_be_is_refused_before_any_work(call, tmp_path, a, second):
    before = contents(tmp_path)
    for arguments, why in REFUSALS:
        call.assert_refuses(*arguments, why=why)
        assert contents(tmp_path) == before, arguments
