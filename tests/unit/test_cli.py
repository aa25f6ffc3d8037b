"""The command line: files in, a file out, an exit code for every end."""

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.command import K, M, N, contents, make, read, same_bits, save, visible
from tests.layouts import lay_out
from twom_dist import jobs
from twom_dist.cli import failures, main
from twom_dist.cli.options import NUMBER, SHAPE
from twom_dist.errors import MemoryLimitError
from twom_dist.memory import MemoryBudget
from twom_dist.plan import Cluster

ROOT = Path(__file__).resolve().parents[2]
ROUTINES = ["gemm", "herk", "syrk", "her2k", "syr2k"]
HERE = ("--workers", "0", "--tile", "16")


@pytest.fixture
def b2(here):
    """A matrix in the shape of A, as a member of a file."""
    values = make(M, K, 3)
    save("data.h5::g/B", values)
    return values


@pytest.mark.parametrize("routine", ROUTINES)
def test_every_routine_is_a_command_with_all_options(call, a, b2, routine):
    gemm, hermitian = routine == "gemm", routine[:2] == "he"
    op = {"op_b": "C"} if gemm else {"op": "C" if hermitian else "T", "uplo": "lower"}
    options = {**op, "method": "3m", "accuracy": 1e-10, "beta": -0.5}
    options["alpha"] = 2 if hermitian else 1 + 2j
    two = gemm or routine.endswith("2k")
    matrices, paths = [a, b2][: 1 + two], ["A.npy", "data.h5::g/B"][: 1 + two]
    c = make(M, M, 5) if gemm else make(K, K, 5)
    np.save("C0.npy", c)
    save("C.zarr", make(3, 3, 7))
    flags = [
        str(w) for x, y in options.items() for w in (f"--{x}".replace("_", "-"), y)
    ]
    product = (routine, *paths, "-o", "C.zarr", *flags, "--c", "C0.npy", "--overwrite")
    code, out, err = call(*product, *HERE)
    assert (code, err) == (0, "")
    assert f"{routine}, {'37 x 37' if gemm else '29 x 29'} complex128, " in out
    assert same_bits(read("C.zarr"), getattr(td, routine)(*matrices, c, **options))
    assert not list(Path().glob(".*"))
    assert call(*product, *HERE, "--quiet") == (0, "", "")


# --- the other commands -----------------------------------------------------------


def test_help_is_quick_and_names_the_exit_codes(call):
    for command in ((), ("gemm",)):
        code, out, _ = call(*command, "--help")
        assert code == 0
        for line in ("0    done", "2    refused", "130  interrupted"):
            assert line in out
    assert set(ROUTINES) <= set(main.commands)
    code, out, _ = call("her2k", "--help")
    assert (code, "alpha A B^H + conj(alpha) B A^H + beta C0" in out) == (0, True)
    code = "import sys, twom_dist.cli; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    slow = {"distributed", "zarr", "h5py", "numba", "onnxruntime"}
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


def test_python_and_dask_have_the_command():
    (entry,) = entry_points(group="dask_cli", name="twom")
    assert (entry.load(), main.name) == (main, "twom")
    command = [sys.executable, "-m", "twom_dist", "plan"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("twom-dist: error: ")
    assert found.stderr.count("\n") == 1


def test_info_names_versions_and_describes_a_matrix(call, tmp_path):
    code, out, err = call("info")
    assert (code, err) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert (rows["numpy"], rows["engine"]) == (np.__version__, "cpu")
    assert {"zarr", "distributed", "onnxruntime", "cores", "BLAS"} <= set(rows)
    save(tmp_path / "A.zarr", make(40, 20, 8, "c8"))
    code, out, _ = call("info", "A.zarr")
    assert code == 0
    for part in ("40 x 20", "complex64", "16 x 16", "6.25 kiB"):
        assert part in out


def test_plan_of_shapes_and_of_files(call, a, b):
    code, out, _ = call("plan", "--shape-a", "4096,2048", "--shape-b", "2048x1024")
    assert (code, "4096 x 2048 times 2048 x 1024, complex128" in out) == (0, True)
    # As a job is planned: whole tiles, the last ones smaller, and the processes' share.
    cluster = Cluster(2, 1, MemoryBudget(4 * 2**30, "job"))
    flags = ("--json", "--workers", "2", "--tile", "10", "--worker-memory", "4GiB")
    for command, shape, options in (
        (("A.npy", "B.npy"), (M, N, K), {}),
        (("A.npy", "--routine", "herk", "--op", "C"), (K, K, M), {"op": "C"}),
    ):
        code, out, _ = call("plan", *command, *flags)
        routine = "herk" if options else "gemm"
        layout = lay_out(shape, "c16", cluster, tile=10, routine=routine, **options)
        expected = layout.plan(layout.waves[0], cluster)
        assert code == 0
        assert json.loads(out) == {"waves": 1, **json.loads(expected.to_json())}


def test_a_plan_has_the_waves_of_the_job(call):
    flags = ("--uplo", "lower", "--worker-memory", "2GiB", "--workers", "2")
    code, out, _ = call("plan", "--shape-a", "9000,9000", "--routine", "syrk", *flags)
    assert (code, "syrk, lower" in out, "The first of" in out) == (0, True, True)
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
    numbers = {"1+2j": 1 + 2j, "-.5": -0.5, "1e3": 1000, "j": 1j}
    assert {text: NUMBER(text) for text in numbers} == numbers
    assert SHAPE("3,4") == SHAPE("3x4") == SHAPE(" 3 , 4") == (3, 4)


# --- failures while running ---------------------------------------------------------


@pytest.mark.parametrize("debug", [False, True])
def test_a_failure_leaves_what_was_there(call, tmp_path, b, debug):
    save("A.zarr", make(M, K, 9))
    save("C.npy", np.eye(3))
    chunk = Path("A.zarr/c/1/0")
    chunk.write_bytes(chunk.read_bytes()[:-3])
    before = visible(tmp_path)
    flags = ("--overwrite", *HERE, *(("--debug",) if debug else ()))
    code, out, err = call("gemm", "A.zarr", "B.npy", "-o", "C.npy", *flags)
    assert (code, out) == (1, "")
    kept, *trace, sentence = err.splitlines()
    assert re.match(r"twom-dist: error: '.*A\.zarr \[.*\]' could not be read", sentence)
    assert (trace[:1] == ["Traceback (most recent call last):"]) == debug
    assert debug or not trace
    assert "tiles are kept in '" in kept
    assert visible(tmp_path) == before


ENDINGS = [
    (KeyboardInterrupt, 130, "interrupted"),
    (MemoryError, 1, "out-of-memory"),
    (ZeroDivisionError, 1, "unexpected"),
    # Of distributed, and told by its name.
    ("KilledWorker", 1, "worker-killed"),
    ("FutureCancelledError", 1, "job-cancelled"),
    ("CommClosedError", 1, "scheduler-gone"),
]


@pytest.mark.parametrize(("kind", "exit_code", "code"), ENDINGS)
def test_every_end_has_its_code(
    call, tmp_path, a, b, monkeypatch, kind, exit_code, code
):
    before = contents(tmp_path)

    def fail(*_: object) -> None:
        raise type(kind, (Exception,), {}) if isinstance(kind, str) else kind

    monkeypatch.setattr(jobs, "compute", fail)
    found, out, err = call("gemm", "A.npy", "B.npy", "-o", "C.h5", *HERE, "--json")
    assert (found, json.loads(out)["code"]) == (exit_code, code)
    assert err.startswith("twom-dist: error: ")
    assert contents(tmp_path) == before
