"""herk, syrk, her2k and syr2k on the command line."""

import json

import numpy as np
import pytest
from click import UsageError

import twom_dist as td
from tests.command import K, M, contents, make, read, same_bits, save
from tests.layouts import lay_out
from twom_dist.cli import main
from twom_dist.errors import MemoryLimitError, PlanError, StoreError
from twom_dist.memory import MemoryBudget
from twom_dist.plan import Cluster

HERE = ("--workers", "0", "--tile", "16")
ROUTINES = ["herk", "syrk", "her2k", "syr2k"]


@pytest.fixture
def second(tmp_path):
    """A matrix in the shape of A."""
    values = make(M, K, 3)
    save(tmp_path / "B.zarr", values)
    return values


@pytest.mark.parametrize("routine", ROUTINES)
def test_every_routine_is_a_command(call, a, second, routine):
    two = routine.endswith("2k")
    flags = ("-o", "C.npy", "--uplo", "lower", "--progress", *HERE)
    code, out, err = call(routine, "A.npy", *(["B.zarr"] if two else []), *flags)
    assert code == 0, err
    assert "6/6" in err
    assert "GFLOP/s" in err
    assert f"{routine}, 37 x 37 complex128, 3 x 3 tiles (k in 2), 2m with 16" in out
    matrices = (a, second) if two else (a,)
    assert same_bits(read("C.npy"), getattr(td, routine)(*matrices, uplo="lower"))


def test_all_of_an_update_is_there(call, tmp_path, a):
    c = make(K, K, 5)
    np.save(tmp_path / "C0.npy", c)
    scalars = ("--alpha", "2", "--beta", "-0.5", "--c", "C0.npy")
    options = ("--op", "C", "--uplo", "upper", "--method", "3m", "--accuracy", "1e-10")
    save(tmp_path / "C.zarr", np.eye(3))
    flags = (*scalars, *options, *HERE, "--overwrite", "--quiet")
    assert call("herk", "A.npy", "-o", "C.zarr", *flags) == (0, "", "")
    options = {"op": "C", "uplo": "upper", "method": "3m", "accuracy": 1e-10}
    expected = td.herk(a, c, alpha=2, beta=-0.5, **options)
    assert same_bits(read("C.zarr"), expected)


def test_help_and_dask_know_the_commands(call):
    assert set(ROUTINES) <= set(main.commands)
    code, out, _ = call("her2k", "--help")
    assert (code, "alpha A B^H + conj(alpha) B A^H + beta C0" in out) == (0, True)
    assert "2    refused" in out


def test_plans_of_updates(call, a, second):
    flags = ("--json", "--workers", "2", "--tile", "10")
    code, out, _ = call("plan", "A.npy", "--routine", "herk", "--op", "C", *flags)
    # As a job is planned: mirrored as they are written, no tasks and no memory for the
    # tiles of the other triangle.
    cluster = Cluster(2, 1, MemoryBudget(None, "job"))
    layout = lay_out((K, K, M), "c16", cluster, routine="herk", tile=10, op="C")
    expected = layout.plan(layout.waves[0], cluster)
    assert code == 0
    assert json.loads(out) == {"waves": 1, **json.loads(expected.to_json())}
    chunks = (layout.grid.n, layout.grid.k)
    whole = td.plan_herk((M, K), op="C", chunks=chunks, workers=2)
    assert whole.num_tasks == expected.num_tasks + 3
    shape = ("--shape-a", "9000,9000")
    flags = ("--uplo", "lower", "--worker-memory", "2GiB", "--workers", "2")
    code, out, _ = call("plan", *shape, "--routine", "syrk", *flags)
    assert (code, "syrk, lower" in out, "The first of" in out) == (0, True, True)
    two = ("A.npy", "B.zarr", "--routine", "her2k", "--json")
    code, out, _ = call("plan", *two)
    plan = json.loads(out)
    assert (plan["routine"], plan["m"], plan["k"]) == ("her2k", M, K)


UPDATE = ("A.npy", "-o", "C.npy", "--workers", "0")
REFUSALS = [
    (("herk", *UPDATE, "--alpha", "1j"), TypeError),
    (("herk", *UPDATE, "--beta", "1j", "--c", "A.npy"), TypeError),
    (("herk", *UPDATE, "--beta", "1", "--c", "A.npy"), PlanError),
    (("herk", *UPDATE, "--c", "A.npy"), "no-beta"),
    (("herk", *UPDATE, "--beta", "1"), "no-c"),
    (("herk", *UPDATE, "--uplo", "left"), UsageError),
    (("herk", *UPDATE, "--op", "T"), "op"),
    (("syrk", *UPDATE, "--op", "C"), "op"),
    (("syrk", *UPDATE, "--method", "5m"), PlanError),
    (("syrk", *UPDATE, "--memory-limit", "64kB"), MemoryLimitError),
    (("her2k", *UPDATE), UsageError),
    (("her2k", "T.npy", *UPDATE), PlanError),
    (("herk", "B.zarr", *UPDATE), UsageError),
    (("herk", "A.npy", "-o", "A.npy"), PlanError),
    (("syr2k", "A.npy", "B.zarr", "-o", "B.zarr"), PlanError),
    (("herk", "A.npy", "-o", "old.npy"), StoreError),
    (("herk", "none.npy", "-o", "C.npy"), StoreError),
    (("plan", "A.npy", "--routine", "her2k"), "one-input"),
    (("plan", "A.npy", "B.zarr", "--routine", "herk"), "two-b"),
    (("plan", "A.npy", "--routine", "herk", "--op", "T"), PlanError),
    (("plan", "A.npy", "--routine", "herk", "--op-a", "T"), "unknown-option"),
    (("plan", "A.npy", "A.npy", "--op", "T"), "unknown-option"),
    (("plan", "A.npy", "T.npy", "--uplo", "full"), "unknown-option"),
]


def test_what_cannot_be_is_refused_before_any_work(call, tmp_path, a, second):
    save(tmp_path / "old.npy", np.eye(2))
    np.save(tmp_path / "T.npy", a.T)
    before = contents(tmp_path)
    for arguments, why in REFUSALS:
        call.assert_refuses(*arguments, why=why)
        assert contents(tmp_path) == before, arguments
