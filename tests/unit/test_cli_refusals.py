"""What cannot be is refused in one sentence, and nothing is written."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import dask
import h5py
import numpy as np
import pytest
import zarr

from tests.command import (
    K,
    M,
    N,
    assert_refused,
    contents,
    make,
    save,
)
from twom_dist.cli.failures import RefusedError
from twom_dist.cli.workers import connect

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
REFUSALS = [
    (("none.npy", "B.npy", *TO, "C.npy"), r"none\.npy' does not exist; give"),
    (("short.npy", "B.npy", *TO, "C.npy"), r"short\.npy' is truncated: .*again\."),
    (("text.npy", "B.npy", *TO, "C.npy"), r"text\.npy' could not be read"),
    (("A.txt", "B.npy", *TO, "C.npy"), r"ends in '\.txt'; matrices are kept in"),
    (("short.npz", "B.npy", *TO, "C.npy"), r"short\.npz' could not be read"),
    (("empty.zarr", "B.npy", *TO, "C.npy"), r"no zarr directory store"),
    (("cube.npy", "B.npy", *TO, "C.npy"), r"3 dimensions; matrices have two"),
    (("half.npy", "B.npy", *TO, "C.npy"), r"dtype float16; allowed are"),
    (("pair.npz", "B.npy", *TO, "C.npy"), r"holds 2 2-D arrays, 'A', 'B': name"),
    (("vector.h5", "B.npy", *TO, "C.npy"), r"holds no 2-D array"),
    (("A.zarr::x", "B.npy", *TO, "C.npy"), r"names no array of the container"),
    (("A.npy", "A.npy", *TO, "C.npy"), r"inner dimensions must agree"),
    (("A.npy", "B.npy", *TO, "old.npy"), r"exists; choose .* with --overwrite"),
    (("A.npy", "B.npy", *TO, "none/C.npy"), r"is no folder; make it first"),
    (("A.npy", "B.npy", *TO, "C.dat"), r"ends in '\.dat'; matrices are kept in"),
    (("A.npy", "B.npy", *TO, "A.npy"), r"is the file of A; inputs are never"),
    (("A.npy", "B.npy", *TO, "./x/../B.npy"), r"is the file of B; inputs are"),
    (("link.npy", "B.npy", *TO, "A.npy", "--overwrite"), r"is the file of A;"),
    (("A.npy", "B.npy", *TO, "link.npy", "--overwrite"), r"is the file of A;"),
    (("A.npy", "B.npy", *TO, "hard.npy", "--overwrite"), r"is the file of A;"),
    (("A.zarr", "B.npy", *TO, "A.zarr/C.zarr"), r"and the file of A lie in one"),
    (("A.zarr", "B.npy", *TO, "A.zarr::C"), r"is the file of A;"),
    ((*PRODUCT, "--c", "A.npy", "--beta", "1"), r"C has shape \(37, 29\) and op"),
    (
        ("A.npy", "B.npy", *TO, "old.npy", "--c", "old.npy", "--beta", "1"),
        r"the output 'old\.npy' is the file of C0; inputs are never",
    ),
    ((*PRODUCT, "--c", "A.npy"), r"--c given without --beta; give --beta 1"),
    ((*PRODUCT, "--beta", "2"), r"--beta given without --c; name C0, or"),
    ((*PRODUCT, "--alpha", "two"), r"'two' is no number such as"),
    (("real.npy", "real.npy", "--op-b", "T", *TO, "C.npy", "--alpha", "1j"), r"a real"),
    ((*PRODUCT, "--method", "5m"), r"--method 5m given; allowed are '2m'"),
    ((*PRODUCT, "--engine", "gpu"), r"--engine gpu given; allowed are"),
    ((*PRODUCT, "--scaling", "x"), r"--scaling x given; allowed are"),
    ((*PRODUCT, "--accuracy", "high"), r"--accuracy high given; allowed are"),
    ((*PRODUCT, "--num-moduli", "99"), r"--num-moduli 99 given; method '2m' on"),
    ((*PRODUCT, "--num-moduli", "9", "--accuracy", "1e-9"), r"give one of them"),
    ((*PRODUCT, "--op-a", "X"), r"'X' is not one of 'N', 'T', 'C'"),
    ((*PRODUCT, "--tile", "0"), r"0 is not in the range"),
    ((*PRODUCT, "--memory-limit", "much"), r"'much' is no size such as"),
    ((*PRODUCT, "--memory-limit", "64kB"), r"^[^,]* 1 worker of .* at 80%\)$"),
    ((*PRODUCT[:4], "--workers", "100000000"), r"are room for \d+, .*: give fewer"),
    (
        (*PRODUCT[:4], "--workers", "100000000", "--memory-limit", "1GiB"),
        r"--workers 100000000 given; the .* of memory here are room for \d+, as a",
    ),
    ((*PRODUCT, "--dashboard"), r"--dashboard needs worker processes"),
    ((*PRODUCT, "--fast"), r"No such option '?:? ?'?--fast'?.*; see twom-dist gemm"),
    (("A.npy", "B.npy"), r"Missing option '-o' / '--output'"),
    (("A.npy", "-o", "C.npy"), r"Missing argument 'B'"),
    ((*PRODUCT, "--scheduler", "tcp://h:1"), r"a scheduler and --workers given"),
    (
        (*PRODUCT[:4], "--scheduler", "tcp://h:1", "--scheduler-file", "f"),
        r"--scheduler and --scheduler-file given; give one",
    ),
    (
        (*PRODUCT[:4], "--scheduler", "tcp://127.0.0.1:9", "--timeout", "0.3"),
        r"no scheduler answers at 'tcp://127\.0\.0\.1:9' within 0\.3 s",
    ),
    ((*PRODUCT[:4], "--scheduler", "here"), r"no scheduler answers at 'here'"),
    (
        (*PRODUCT[:4], "--scheduler-file", "none.json", "--timeout", "0.3"),
        r"there is no scheduler file 'none\.json' after 0\.3 s; start the scheduler",
    ),
    (
        (*PRODUCT[:4], "--scheduler-file", "A.npy/s", "--timeout", "0.3"),
        r"'A\.npy/s' cannot be read \(Not a directory\); change its permissions or",
    ),
    ((*PRODUCT[:4], "--scheduler-file", "broken.json"), r"is no scheduler file"),
]


def test_what_cannot_be_is_refused_before_any_work(call, tmp_path, a, b):
    write_bad_inputs(tmp_path)
    before = contents(tmp_path)
    for arguments, sentence in REFUSALS:
        err = assert_refused(call("gemm", *arguments))
        assert re.search(sentence, err), err
        assert contents(tmp_path) == before, arguments


@pytest.mark.parametrize("address", ["here", "tcp://h", "tcp://h:port", "http://h:1"])
def test_what_is_no_address_makes_no_client(address, monkeypatch):
    """Half-made, it would complain when it is collected, after the sentence."""

    def make(*args, **options):
        raise AssertionError(address)

    monkeypatch.setattr("distributed.Client", make)
    with pytest.raises(RefusedError, match="no scheduler answers at"):
        connect(address, 2).__enter__()


def test_a_full_disk_is_refused(call, tmp_path, a, b, monkeypatch):
    before = contents(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    for output in ("C.zarr", "C.npy", "C.npz", "C.h5"):
        answer = call("gemm", "A.npy", "B.npy", "-o", output, *HERE)
        err = assert_refused(answer)
        assert re.search(r"needs \d+ bytes and .* has 1000 free; free some", err)
    assert contents(tmp_path) == before


def test_workers_that_cannot_start_are_refused(call, tmp_path, a, b):
    before = contents(tmp_path)
    with dask.config.set({"temporary-directory": str(tmp_path / "A.npy")}):
        answer = call("gemm", "A.npy", "B.npy", "-o", "C.zarr", "--workers", "1")
    err = assert_refused(answer)
    assert re.search(r"processes did not start \(.*\); run twom-dist doctor", err), err
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("multiply",), r"No such command 'multiply'.*; see twom-dist --help"),
        (("info", "none.npy"), r"none\.npy' does not exist"),
        (("plan", "A.npy", "--uplo", "lower"), r"--uplo given, .* with --routine \(he"),
        (("plan", "A.npy", "--op", "T"), r"--op given; gemm takes --op-a and --op-b"),
        (("plan", "A.npy", "B.npy", "--memory-limit", "9kB"), r"the fullest needs"),
        (("plan", "A.npy"), r"the path of B and --shape-b: neither given"),
        (("plan", "A.npy", "B.npy", "--shape-b", "2,2"), r"--shape-b: both given"),
        (("plan", "--shape-a", "4"), r"'4' is no pair such as 4096,2048"),
        (("plan", "B.npy", "A.npy"), r"inner dimensions must agree"),
        (("plan", "A.npy", "B.npy", "--dtype", "int8"), r"--dtype int8 given"),
        (("plan", "A.npy", "B.npy", "--worker-memory", "9kB"), r"the fullest needs"),
    ],
)
def test_the_other_commands_refuse_as_well(call, a, b, arguments, sentence):
    err = assert_refused(call(*arguments))
    assert re.search(sentence, err), err
