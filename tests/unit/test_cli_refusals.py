"""What cannot be is refused in one sentence, and nothing is written."""

import os
from pathlib import Path
from types import SimpleNamespace

import dask
import h5py
import numpy as np
import pytest
import zarr
from click import UsageError

from tests.command import K, M, N, contents, make, save
from tests.expect import raises
from twom_dist.cli.workers import connect
from twom_dist.errors import (
    AccuracyError,
    MemoryLimitError,
    PlanError,
    StoreError,
    TwomError,
)
from twom_dist.store import find_unfinished

HERE = ("--workers", "0", "--tile", "16")


def write_bad_inputs(folder: Path) -> None:
    whole = (folder / "A.npy").read_bytes()
    (folder / "short.npy").write_bytes(whole[:-5])
    (folder / "text.npy").write_text("no matrix\n")
    (folder / "A.txt").write_text("1 2\n3 4\n")
    (folder / "short.npz").write_bytes(b"PK\x03\x04")
    (folder / "empty.zarr").mkdir()
    np.save(folder / "cube.npy", np.zeros((2, 2, 2)))
    np.save(folder / "half.npy", np.zeros((2, 2), "f2"))
    np.save(folder / "real.npy", np.zeros((K, N)))
    np.savez(folder / "pair.npz", A=np.eye(2), B=np.eye(2))
    with h5py.File(folder / "vector.h5", "w") as file:
        file["v"] = np.zeros(3)
    zarr.create_array(folder / "A.zarr", data=make(M, K, 1), chunks=(16, 16))
    (folder / "link.npy").symlink_to(folder / "A.npy")
    os.link(folder / "A.npy", folder / "hard.npy")
    (folder / "broken.json").write_text("{}")
    save(folder / "old.npy", np.eye(2))


PRODUCT = ("A.npy", "B.npy", "-o", "C.npy", "--workers", "0")
TO = ("--workers", "0", "-o")
# What is refused, and the code or the kind of the error.
REFUSALS = [
    (("none.npy", "B.npy", *TO, "C.npy"), StoreError),
    (("short.npy", "B.npy", *TO, "C.npy"), StoreError),
    (("text.npy", "B.npy", *TO, "C.npy"), StoreError),
    (("A.txt", "B.npy", *TO, "C.npy"), StoreError),
    (("short.npz", "B.npy", *TO, "C.npy"), StoreError),
    (("empty.zarr", "B.npy", *TO, "C.npy"), StoreError),
    (("cube.npy", "B.npy", *TO, "C.npy"), StoreError),
    (("half.npy", "B.npy", *TO, "C.npy"), StoreError),
    (("pair.npz", "B.npy", *TO, "C.npy"), StoreError),
    (("vector.h5", "B.npy", *TO, "C.npy"), StoreError),
    (("A.zarr::x", "B.npy", *TO, "C.npy"), StoreError),
    (("A.npy", "A.npy", *TO, "C.npy"), PlanError),
    (("A.npy", "B.npy", *TO, "old.npy"), StoreError),
    (("A.npy", "B.npy", *TO, "none/C.npy"), StoreError),
    (("A.npy", "B.npy", *TO, "C.dat"), StoreError),
    (("A.npy", "B.npy", *TO, ""), "path-empty"),
    (("A.npy", "B.npy", *TO, 250 * "C" + ".npy"), "name-too-long"),
    (("A.npy", "B.npy", *TO, "A.npy"), PlanError),
    (("A.npy", "B.npy", *TO, "./x/../B.npy"), PlanError),
    (("link.npy", "B.npy", *TO, "A.npy", "--overwrite"), PlanError),
    (("A.npy", "B.npy", *TO, "link.npy", "--overwrite"), PlanError),
    (("A.npy", "B.npy", *TO, "hard.npy", "--overwrite"), PlanError),
    (("A.zarr", "B.npy", *TO, "A.zarr/C.zarr"), PlanError),
    (("A.zarr", "B.npy", *TO, "A.zarr::C"), PlanError),
    ((*PRODUCT, "--c", "A.npy", "--beta", "1"), PlanError),
    (("A.npy", "B.npy", *TO, "old.npy", "--c", "old.npy", "--beta", "1"), PlanError),
    ((*PRODUCT, "--c", "A.npy"), "no-beta"),
    ((*PRODUCT, "--beta", "2"), "no-c"),
    ((*PRODUCT, "--alpha", "two"), UsageError),
    (
        ("real.npy", *("real.npy", "--op-b", "T", *TO, "C.npy", "--alpha", "1j")),
        TypeError,
    ),
    ((*PRODUCT, "--method", "5m"), PlanError),
    ((*PRODUCT, "--engine", "gpu"), PlanError),
    ((*PRODUCT, "--accuracy", "high"), AccuracyError),
    ((*PRODUCT, "--num-moduli", "99"), AccuracyError),
    ((*PRODUCT, "--num-moduli", "9", "--accuracy", "1e-9"), AccuracyError),
    ((*PRODUCT, "--op-a", "X"), UsageError),
    ((*PRODUCT, "--tile", "0"), UsageError),
    ((*PRODUCT, "--memory-limit", "much"), UsageError),
    ((*PRODUCT, "--memory-limit", "1e400"), UsageError),
    ((*PRODUCT, "--memory-limit", "64kB"), MemoryLimitError),
    ((*PRODUCT[:4], "--workers", "100000000"), "too-many-workers"),
    (
        (*PRODUCT[:4], "--workers", "100000000", "--memory-limit", "1GiB"),
        "too-many-workers",
    ),
    ((*PRODUCT, "--dashboard"), "no-processes"),
    ((*PRODUCT, "--fast"), UsageError),
    (("A.npy", "B.npy"), UsageError),
    (("A.npy", "-o", "C.npy"), UsageError),
    ((*PRODUCT, "--scheduler", "tcp://h:1"), "workers-of-scheduler"),
    (
        (*PRODUCT[:4], "--insecure", "--scheduler", "tcp://h:1"),
        "workers-of-scheduler",
    ),
    (
        (*PRODUCT[:4], "--scheduler", "tcp://h:1", "--scheduler-file", "f"),
        "two-schedulers",
    ),
    (
        (*PRODUCT[:4], "--scheduler", "tcp://127.0.0.1:9", "--timeout", "0.3"),
        "no-scheduler",
    ),
    ((*PRODUCT[:4], "--scheduler", "tcp://h:1", "--timeout", "nan"), UsageError),
    ((*PRODUCT[:4], "--scheduler", "tcp://h:1", "--timeout", "1e400"), UsageError),
    ((*PRODUCT[:4], "--scheduler", "here"), "no-scheduler"),
    (
        (*PRODUCT[:4], "--scheduler-file", "none.json", "--timeout", "0.3"),
        "no-scheduler-file",
    ),
    (
        (*PRODUCT[:4], "--scheduler-file", "A.npy/s", "--timeout", "0.3"),
        "no-scheduler-file",
    ),
    (
        (*PRODUCT[:4], "--scheduler-file", "broken.json", "--timeout", "0.3"),
        "no-scheduler-file",
    ),
]


def test_what_cannot_be_is_refused_before_any_work(call, tmp_path, a, b):
    write_bad_inputs(tmp_path)
    before = contents(tmp_path)
    for arguments, why in REFUSALS:
        call.assert_refuses("gemm", *arguments, why=why)
        assert contents(tmp_path) == before, arguments


def test_paths_that_look_like_options_stay_as_they_are(call, b):
    for path in ("overwrite=True.npy", "tile=4  x.npy", "resume=True/method=2m.npy"):
        sentence = call.assert_refuses(
            *("gemm", path, "B.npy", *TO, "C.npy"), why=StoreError
        )
        assert path in sentence


@pytest.mark.parametrize("address", ["here", "tcp://h", "tcp://h:port", "http://h:1"])
def test_what_is_no_address_makes_no_client(address, monkeypatch):
    """Half-made, it would complain when it is collected, after the sentence."""

    def make(*args, **options):
        raise AssertionError(address)

    monkeypatch.setattr("distributed.Client", make)
    with raises(TwomError, "no-scheduler"):
        connect(address, None, 2).__enter__()


def test_a_full_disk_is_refused(call, tmp_path, a, b, monkeypatch):
    before = contents(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    for output in ("C.zarr", "C.npy", "C.npz", "C.h5"):
        arguments = ("gemm", "A.npy", "B.npy", "-o", output, *HERE)
        assert "1000" in call.assert_refuses(*arguments, why=StoreError)
    assert contents(tmp_path) == before


def test_workers_that_cannot_start_are_refused(call, tmp_path, a, b):
    before = contents(tmp_path)
    product = ("gemm", "A.npy", "B.npy", "-o", "C.zarr", "--workers", "1")
    with dask.config.set({"temporary-directory": str(tmp_path / "A.npy")}):
        call.assert_refuses(*product, why="workers-did-not-start")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("multiply",), UsageError),
        (("info", "none.npy"), StoreError),
        (("plan", "A.npy", "B.npy", "--uplo", "lower"), "unknown-option"),
        (("plan", "A.npy", "B.npy", "--op", "T"), "unknown-option"),
        (("plan", "A.npy", "B.npy", "--memory-limit", "9kB"), MemoryLimitError),
        (("plan", "A.npy"), "one-input"),
        (("plan", "A.npy", "B.npy", "--shape-b", "2,2"), "one-input"),
        (("plan", "--shape-a", "4"), UsageError),
        (("plan", "B.npy", "A.npy"), PlanError),
        (("plan", "A.npy", "B.npy", "--dtype", "int8"), "dtype"),
        (("plan", "A.npy", "B.npy", "--dtype", "1+2j"), "dtype"),
        (("plan", "--shape-a", "2,2", "--shape-b", "2,100000000000"), "many-tiles"),
        (("plan", "A.npy", "B.npy", "--worker-memory", "9kB"), MemoryLimitError),
        (("plan", "A.npy", "B.npy", "--workers", "0"), UsageError),
    ],
)
def test_the_other_commands_refuse_as_well(call, a, b, arguments, why):
    call.assert_refuses(*arguments, why=why)


def test_a_folder_that_cannot_be_reached_is_not_taken_for_missing(tmp_path):
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    inner.parent.chmod(0o600)
    user = os.geteuid()
    try:
        if user == 0:
            # Root may go anywhere.
            os.seteuid(65534)
        with raises(StoreError, "no-permission"):
            find_unfinished(inner / "C.npy").check(overwrite=False)
    finally:
        os.seteuid(user)
        inner.parent.chmod(0o700)
