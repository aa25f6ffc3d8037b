"""The command line: files in, a file out, an exit code for every end."""

import errno
import json
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.command import (
    K,
    M,
    N,
    contents,
    make,
    read,
    same_bits,
    save,
    visible,
)
from tests.layouts import lay_out
from twom_dist.cli import failures, main
from twom_dist.cli.failures import describe
from twom_dist.cli.options import parse_number, parse_shape
from twom_dist.errors import MemoryLimitError
from twom_dist.jobs.running import compute_wave
from twom_dist.memory import MemoryBudget
from twom_dist.plan import Cluster

ROOT = Path(__file__).resolve().parents[2]
INPUTS = ["A.npy", "A.npz", "A.h5::g/A", "A.zarr"]
OUTPUTS = ["C.npy", "C.npz::C", "C.hdf5", "C.zarr", "C.zarr::g/C"]
HERE = ("--workers", "0", "--tile", "16")


# --- products -------------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_has_the_bits_of_gemm(call, tmp_path, a, b, output):
    code, out, err = call("gemm", "A.npy", "B.npy", "-o", output, *HERE)
    assert (code, err) == (0, "")
    assert "37 x 41 complex128, 3 x 3 tiles (k in 2), 2m with 16 moduli" in out
    assert same_bits(read(output), td.gemm(a, b))
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("source", INPUTS)
def test_every_input_is_read(call, tmp_path, b, source):
    values = make(M, K, 3)
    save(source if "::" in source else tmp_path / source, values)
    code, _, err = call("gemm", source, "B.npy", "-o", "C.npy", *HERE, "--quiet")
    assert (code, err) == (0, "")
    assert same_bits(read("C.npy"), td.gemm(values, b))


def test_all_of_gemm_is_there(call, tmp_path, a):
    b, c = make(N, K, 4), make(M, N, 5)
    np.save(tmp_path / "B.npy", b)
    np.save(tmp_path / "C0.npy", c)
    scalars = ("--alpha", "1+2j", "--beta", "-0.5", "--c", "C0.npy")
    options = ("--op-b", "C", "--method", "3m", "--accuracy", "1e-10")
    code, out, _ = call(
        "gemm", "A.npy", "B.npy", "-o", "C.zarr", *scalars, *options, *HERE
    )
    expected = td.gemm(
        a, b, c, alpha=1 + 2j, beta=-0.5, op_b="C", method="3m", accuracy=1e-10
    )
    assert (code, "3m with" in out) == (0, True)
    assert same_bits(read("C.zarr"), expected)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i4"])
def test_every_dtype_and_a_matrix_by_itself(call, tmp_path, dtype):
    values = (8 * make(20, 20, 6, "f8")).astype(dtype)
    np.save(tmp_path / "A.npy", values)
    code, _, _ = call("gemm", "A.npy", "A.npy", "--op-a", "T", "-o", "C.npy", *HERE)
    assert code == 0
    assert same_bits(read("C.npy"), td.gemm(values, values, op_a="T"))


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (2, 3, 0), (1, 1, 1)])
def test_small_and_empty_shapes(call, tmp_path, shape):
    m, k, n = shape
    np.save(tmp_path / "A.npy", np.ones((m, k), "c16"))
    np.save(tmp_path / "B.npy", np.ones((k, n), "c16"))
    code, _, err = call("gemm", "A.npy", "B.npy", "-o", "C.zarr", "--workers", "0")
    assert (code, err) == (0, "")
    assert same_bits(read("C.zarr"), np.full((m, n), k, "c16"))


def test_overwrite_replaces(call, tmp_path, a, b):
    save(tmp_path / "C.zarr", make(3, 3, 7))
    code, _, _ = call("gemm", "A.npy", "B.npy", "-o", "C.zarr", "--overwrite", *HERE)
    assert code == 0
    assert same_bits(read("C.zarr"), td.gemm(a, b))


def test_the_bar_counts_tiles(call, a, b):
    code, out, err = call("gemm", "A.npy", "B.npy", "-o", "C.npy", *HERE, "--progress")
    assert (code, "GFLOP/s" in out) == (0, True)
    assert "9/9" in err
    assert "GFLOP/s" in err
    arguments = ("A.npy", "B.npy", "-o", "D.npy", *HERE, "--progress", "--quiet")
    assert call("gemm", *arguments) == (0, "", "")


# --- the other commands -----------------------------------------------------------


def test_help_is_quick_and_names_the_exit_codes(call):
    for command in ((), ("gemm",)):
        code, out, _ = call(*command, "--help")
        assert code == 0
        for line in ("0    done", "2    refused", "130  interrupted"):
            assert line in out
    code = "import sys, twom_dist.cli; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    slow = {"distributed", "zarr", "h5py", "numba", "onnxruntime", "tqdm"}
    assert slow & set(found.stdout.split()) == set()


def test_the_docs_have_the_exit_codes_of_the_help():
    page = (ROOT / "docs" / "scaling-out.md").read_text("utf-8")
    table = page.partition("| exit code |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", table, re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == failures.EXIT_CODES


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        (
            ("gemm", "A.npy", "B.npy", "-o", "C.npy", *HERE),
            {"resumed": 0, "shape": [M, N, K]},
        ),
        (("herk", "A.npy", "-o", "H.npy", *HERE, "--quiet"), {"dtype": "complex128"}),
        (("plan", "A.npy", "B.npy"), {"waves": 1}),
        (("info",), {"engine": "cpu"}),
        (("info", "A.npy"), {"shape": [M, K], "chunks": None}),
        (("doctor",), {"ok": True}),
        (("clean", "."), {"leftovers": []}),
    ],
)
def test_every_command_prints_a_line_of_json(call, a, b, command, fields):
    code, out, err = call(*command, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    found = json.loads(out)
    assert {name: found[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("info", "none.npy"), "file-missing"),
        (("plan", "A.npy", "A.npy"), "shapes"),
        (("gemm", "--fast"), "usage"),
        (("clean", "none"), "usage"),
    ],
)
def test_errors_are_json_beside_the_sentence(call, a, command, code):
    exit_code, out, err = call(*command, "--json")
    found = json.loads(out)
    assert (exit_code, found["code"], found["exit"]) == (2, code, 2)
    assert err.startswith(f"twom-dist: error: {found['error']}")
    assert found["remedy"] in err


def test_dask_has_the_command():
    (found,) = entry_points(group="dask_cli", name="twom")
    assert found.load() is main
    assert main.name == "twom"


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "twom_dist", "plan"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("twom-dist: error: the path of A and --shape-a: nei")
    assert found.stderr.count("\n") == 1


def test_info_names_versions_and_kernel(call):
    code, out, err = call("info")
    assert (code, err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert rows["numpy"] == np.__version__
    assert rows["engine"] == "cpu"
    assert {"zarr", "distributed", "onnxruntime", "cores", "BLAS"} <= set(rows)
    assert "int8 kernel" in out


def test_info_describes_a_matrix(call, tmp_path):
    save(tmp_path / "A.zarr", make(40, 20, 8, "c8"))
    code, out, _ = call("info", "A.zarr")
    assert code == 0
    for part in ("40 x 20", "complex64", "16 x 16", "6.25 kiB"):
        assert part in out


def test_plan_of_shapes_and_of_files(call, a, b):
    code, out, _ = call("plan", "--shape-a", "4096,2048", "--shape-b", "2048x1024")
    assert (code, "4096 x 2048 times 2048 x 1024, complex128" in out) == (0, True)
    flags = ("--json", "--workers", "2", "--tile", "10", "--worker-memory", "4GiB")
    code, out, _ = call("plan", "A.npy", "B.npy", *flags)
    plan = json.loads(out)
    assert code == 0
    assert (plan["m"], plan["n"], plan["k"], plan["workers"]) == (M, N, K, 2)
    # As a job is planned: whole tiles, the last ones smaller, and the processes' share.
    cluster = Cluster(2, 1, MemoryBudget(4 * 2**30, "job"))
    layout = lay_out((M, N, K), "c16", cluster, tile=10)
    expected = layout.plan(layout.waves[0], cluster)
    assert plan == {"waves": 1, **json.loads(expected.to_json())}


def test_a_plan_has_the_waves_of_the_job(call):
    shape = ("--shape-a", "8000,4000", "--shape-b", "4000,8000")
    memory = ("--workers", "4", "--worker-memory", "600MiB")
    cluster = Cluster(4, 1, MemoryBudget(600 * 2**20, "job"))
    count = len(lay_out((8000, 8000, 4000), "c16", cluster).waves)
    _, out, _ = call("plan", *shape, *memory)
    assert f" in {count} waves, " in out
    _, out, _ = call("plan", *shape, *memory, "--json")
    assert json.loads(out)["waves"] == count > 1
    memory = ("--workers", "4", "--worker-memory", "400MiB")
    call.assert_refuses("plan", *shape, *memory, why=MemoryLimitError)


def test_numbers_and_shapes_are_parsed():
    assert [parse_number(x) for x in ("1+2j", "-.5", "2 - 1j", "1e3", "j")] == [
        *(1 + 2j, -0.5, 2 - 1j, 1000, 1j)
    ]
    assert parse_shape("3,4") == parse_shape("3x4") == parse_shape(" 3 , 4") == (3, 4)


# --- failures while running ---------------------------------------------------------


@pytest.fixture
def damaged(tmp_path, b):
    """A matrix of which one chunk cannot be read, and an output of an earlier run."""
    save(tmp_path / "A.zarr", make(M, K, 9))
    chunk = tmp_path / "A.zarr" / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    save(tmp_path / "C.npy", np.eye(3))
    return tmp_path


@pytest.mark.parametrize("debug", [False, True])
def test_a_failure_leaves_what_was_there(call, damaged, debug):
    before = visible(damaged)
    flags = ("--overwrite", *HERE, *(("--debug",) if debug else ()))
    code, out, err = call("gemm", "A.zarr", "B.npy", "-o", "C.npy", *flags)
    assert (code, out) == (1, "")
    kept, *trace, sentence = err.splitlines()
    assert re.match(r"twom-dist: error: '.*A\.zarr \[.*\]' could not be read", sentence)
    assert (trace[:1] == ["Traceback (most recent call last):"]) == debug
    assert debug or not trace
    assert "tiles are kept in '" in kept
    assert visible(damaged) == before


def test_a_disk_that_fills_up_is_a_failure(call, tmp_path, a, b, monkeypatch):
    before = contents(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("twom_dist.store.output.Output.open", refuse)
    code, _, err = call("gemm", "A.npy", "B.npy", "-o", "C.zarr", *HERE)
    assert (code, err.count("\n")) == (1, 1)
    assert "No space left on device" in err
    assert contents(tmp_path) == before


def test_a_result_that_cannot_be_put_in_place_is_kept(call, a, b, monkeypatch):
    def compute(*arguments: object) -> None:
        compute_wave(*arguments)
        Path("C.npy").write_text("somebody else was faster")

    monkeypatch.setattr("twom_dist.jobs.driver.compute_wave", compute)
    code, _, err = call("gemm", "A.npy", "B.npy", "-o", "C.npy", *HERE)
    assert (code, err.count("\n")) == (1, 2)
    assert "'C.npy' exists" in err.replace(os.getcwd() + "/", "")
    assert "9 of 9 tiles are kept" in err
    assert Path("C.npy").read_text() == "somebody else was faster"
    Path("C.npy").unlink()
    code, out, _ = call("gemm", "A.npy", "B.npy", "-o", "C.npy", *HERE)
    assert (code, "9 of them from before" in out) == (0, True)
    assert same_bits(read("C.npy"), td.gemm(a, b))


@pytest.mark.parametrize(
    ("kind", "code", "word"),
    [
        (KeyboardInterrupt, 130, "interrupted"),
        (MemoryError, 1, "--tile"),
        (ZeroDivisionError, 1, "--debug"),
    ],
)
def test_every_end_has_its_code(call, tmp_path, a, b, monkeypatch, kind, code, word):
    before = contents(tmp_path)

    def fail(*_: object) -> None:
        raise kind("x")

    monkeypatch.setattr("twom_dist.jobs.driver.compute_wave", fail)
    found, out, err = call("gemm", "A.npy", "B.npy", "-o", "C.h5", *HERE)
    assert (found, out) == (code, "")
    assert err.startswith("twom-dist: error: ")
    assert word in err
    assert contents(tmp_path) == before


def test_errors_of_distributed_become_sentences():
    class KilledWorker(Exception):  # noqa: N818
        """Told by its name: distributed need not be loaded."""

    assert describe(KilledWorker()).code == "worker-killed"
    assert "--memory-limit" in describe(KilledWorker()).remedy
    assert describe(OSError("x")).code == "unexpected"
