"""What cannot be is refused in one sentence, and nothing is written."""

import os
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from click import UsageError

from tests.command import M, contents, save
from tests.expect import raises
from twom_dist.cli.workers import connect
from twom_dist.errors import (
    AccuracyError,
    ArgumentError,
    MemoryLimitError,
    PlanError,
    TwomError,
)

PRODUCT = ("A.npy", "B.npy", "-o", "C.npy", "--workers", "0")
TO = ("--workers", "0", "-o")
AT = ("A.npy", "B.npy", "-o", "C.npy", "--timeout", "0.3")
# What is refused, and the code or the kind of the error.
REFUSALS = [
    (("none.npy", "B.npy", *TO, "C.npy"), "file-missing"),
    (("A.npy", "A.npy", *TO, "C.npy"), "shapes"),
    (("A.npy", "B.npy", *TO, "old.npy"), "output-exists"),
    (("A.npy", "B.npy", *TO, "none/C.npy"), "no-folder"),
    (("A.npy", "B.npy", *TO, ""), "path-empty"),
    (("A.npy", "B.npy", *TO, 250 * "C" + ".npy"), "name-too-long"),
    (("A.npy", "B.npy", *TO, "A.npy"), "output-is-input"),
    (("A.npy", "B.npy", *TO, "./x/../B.npy"), "output-is-input"),
    (("link.npy", "B.npy", *TO, "A.npy", "--overwrite"), "output-is-input"),
    (("A.npy", "B.npy", *TO, "link.npy", "--overwrite"), "output-is-input"),
    (("A.npy", "B.npy", *TO, "hard.npy", "--overwrite"), "output-is-input"),
    (("A.zarr", "B.npy", *TO, "A.zarr/C.zarr"), "output-is-input"),
    (("A.zarr", "B.npy", *TO, "A.zarr::C"), "output-is-input"),
    (("A.npy", "B.npy", *TO, "c.npy", "--c", "c.npy", "--beta", "1"), PlanError),
    ((*PRODUCT, "--c", "A.npy"), "no-beta"),
    ((*PRODUCT, "--beta", "2"), "no-c"),
    ((*PRODUCT, "--alpha", "two"), UsageError),
    ((*PRODUCT, "--engine", "gpu"), PlanError),
    ((*PRODUCT, "--accuracy", "high"), AccuracyError),
    ((*PRODUCT, "--num-moduli", "9", "--accuracy", "1e-9"), AccuracyError),
    ((*PRODUCT, "--op-a", "X"), UsageError),
    ((*PRODUCT, "--tile", "0"), UsageError),
    ((*PRODUCT, "--memory-limit", "1e400"), UsageError),
    ((*PRODUCT, "--memory-limit", "64kB"), MemoryLimitError),
    ((*PRODUCT[:4], "--workers", "100000000"), "too-many-workers"),
    ((*PRODUCT, "--dashboard"), "no-processes"),
    (("A.npy", "-o", "C.npy"), UsageError),
    ((*PRODUCT, "--scheduler", "tcp://h:1"), "workers-of-scheduler"),
    ((*AT, "--insecure", "--scheduler", "tcp://h:1"), "workers-of-scheduler"),
    ((*AT, "--scheduler", "tcp://h:1", "--scheduler-file", "f"), "two-schedulers"),
    ((*AT, "--scheduler", "tcp://127.0.0.1:9"), "no-scheduler"),
    ((*AT, "--scheduler", "tcp://h:1", "--timeout", "nan"), UsageError),
    ((*AT, "--scheduler-file", "none.json"), "no-scheduler-file"),
    ((*AT, "--scheduler-file", "broken.json"), "no-scheduler-file"),
]
UPDATE = ("A.npy", "-o", "C.npy", "--workers", "0")
# Of other commands.
OTHER_REFUSALS = [
    (("multiply",), UsageError),
    (("herk", *UPDATE, "--alpha", "1j"), ArgumentError),
    (("herk", *UPDATE, "--c", "A.npy"), "no-beta"),
    (("herk", *UPDATE, "--op", "T"), "op"),
    (("syrk", *UPDATE, "--op", "C"), "op"),
    (("her2k", *UPDATE), UsageError),
    (("herk", "B.npy", *UPDATE), UsageError),
    (("syr2k", "A.npy", "A.zarr", "-o", "A.zarr"), "output-is-input"),
    (("plan", "A.npy", "B.npy", "--memory-limit", "9kB"), MemoryLimitError),
    (("plan", "A.npy"), "one-input"),
    (("plan", "A.npy", "--routine", "her2k"), "one-input"),
    (("plan", "A.npy", "B.npy", "--shape-b", "2,2"), "one-input"),
    (("plan", "A.npy", "A.zarr", "--routine", "herk"), "two-b"),
    (("plan", "A.npy", "--routine", "herk", "--op", "T"), PlanError),
    (("plan", "A.npy", "--routine", "herk", "--op-a", "T"), "unknown-option"),
    (("plan", "A.npy", "B.npy", "--op", "T"), "unknown-option"),
    (("plan", "A.npy", "B.npy", "--uplo", "full"), "unknown-option"),
    (("plan", "--shape-a", "4"), UsageError),
    (("plan", "A.npy", "B.npy", "--dtype", "int8"), "dtype"),
    (("plan", "A.npy", "B.npy", "--dtype", "1+2j"), "dtype"),
    (("plan", "--shape-a", "2,2", "--shape-b", "2,100000000000"), "many-tiles"),
    (("plan", "A.npy", "B.npy", "--workers", "0"), UsageError),
]


def test_what_cannot_be_is_refused_before_any_work(call, tmp_path, a, b, monkeypatch):
    (tmp_path / "link.npy").symlink_to("A.npy")
    os.link("A.npy", "hard.npy")
    (tmp_path / "broken.json").write_text("{}")
    save("A.zarr", a)
    save("old.npy", np.eye(2))
    save("c.npy", np.zeros((M, b.shape[1])))
    before = contents(tmp_path)
    refusals = [(("gemm", *arguments), why) for arguments, why in REFUSALS]
    for arguments, why in refusals + OTHER_REFUSALS:
        call.assert_refuses(*arguments, why=why)
        assert contents(tmp_path) == before, arguments
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
        for output in ("C.zarr", "C.npy", "C.npz", "C.h5"):
            product = ("gemm", "A.npy", "B.npy", *TO, output)
            assert "1000" in call.assert_refuses(*product, why="disk-full")
    with dask.config.set({"temporary-directory": str(tmp_path / "A.npy")}):
        product = ("gemm", *PRODUCT[:4], "--workers", "1")
        call.assert_refuses(*product, why="workers-did-not-start")
    assert contents(tmp_path) == before


def test_a_path_stays_as_it_is(call):
    path = "resume=True/tile=4  x.npy"
    assert path in call.assert_refuses("info", path, why="file-missing")


@pytest.mark.parametrize("address", ["here", "tcp://h", "tcp://h:port", "http://h:1"])
def test_what_is_no_address_makes_no_client(address, monkeypatch):
    """Half-made, it would complain when it is collected, after the sentence."""

    def make(*args, **options):
        raise AssertionError(address)

    monkeypatch.setattr("distributed.Client", make)
    with raises(TwomError, "no-scheduler"):
        connect(address, None, 2).__enter__()
