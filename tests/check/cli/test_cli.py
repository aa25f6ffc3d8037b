"""The command line: files in, a file out, and words that say what they must."""

import json
import re
import resource
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from dask.system import CPU_COUNT

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.command import K, M, N, contents, make, read, save, visible
from tests.support.places import CLUSTER, ROOT
from twom_dist import jobs
from twom_dist.cli import failures

ROUTINES = ["gemm", "herk", "syrk", "her2k", "syr2k"]
HERE = ("--n-workers", "0", "--chunks", "16")


@pytest.mark.parametrize("routine", ROUTINES)
def test_every_routine_is_a_command_with_all_options(call, a, routine):
    gemm, hermitian = routine == "gemm", routine[:2] == "he"
    op = {"op_b": "C"} if gemm else {"op": "C" if hermitian else "T", "uplo": "lower"}
    method = "eisenstein" if hermitian else "3m"
    options = {**op, "method": method, "accuracy": 1e-10, "beta": -0.5}
    options["alpha"] = 2 if hermitian else 1 + 2j
    two = gemm or routine.endswith("2k")
    matrices = [a, make(M, K, 3)][: 1 + two]
    save("data.h5::g/B", matrices[-1])
    paths = ["A.npy", "data.h5::g/B"][: 1 + two]
    c = make(M, M, 5) if gemm else make(K, K, 5)
    np.save("C0.npy", c)
    save("C.zarr", make(3, 3, 7))
    flags = [f"--{name}={value}".replace("_", "-") for name, value in options.items()]
    product = (routine, *paths, "-o", "C.zarr", *flags, "--c", "C0.npy", "--overwrite")
    code, out, err = call(*product, *HERE)
    assert code == 0
    assert re.fullmatch(r"twom-dist: begins on .+, \d+ tiles to compute\n", err)
    assert f"{routine}, {'37 x 37' if gemm else '29 x 29'} complex128, " in out
    assert same_bits(read("C.zarr"), getattr(td, routine)(*matrices, c, **options))
    assert not list(Path().glob(".*"))
    assert call(*product, *HERE, "--quiet") == (0, "", "")


def test_integers_and_diagonals_are_files_as_well(call, a, b):
    x = np.random.default_rng(0).integers(-99, 99, (20, 30)).astype("i2")
    np.save("I.npy", x)
    code, out, _ = call("syrk", "I.npy", "-oC.npy", "--exact", *HERE, "--json")
    assert (code, json.loads(out)["num_moduli"]) == (0, 5)
    assert (np.load("C.npy") == x.astype(int) @ x.T).all()
    np.save("w.npy", w := np.arange(K) - 3.0)
    product = ("gemm", "A.npy", "B.npy", "-o", "D.npy", "--diag", "w.npy")
    code, out, _ = call(*product, *HERE, "--json")
    assert "|diag|" in json.loads(out)["explanation"]["relative_to"]
    assert (np.load("D.npy") == td.gemm(a, b, diag=w)).all()


GEMM = ("gemm", "A.npy", "B.npy", "-o", "C.npy", *HERE)
EXACT = ("plan", "syrk", "I.npy", "--exact")
LINES = [
    (GEMM, {"resumed": 0, "shape": [M, N, K]}),
    (("herk", "A.npy", "-o", "H.npy", *HERE, "--quiet"), {"dtype": "complex128"}),
    (("plan", "gemm", "A.npy", "B.npy"), {"waves": 1}),
    (("plan", "gemm", "--shape-a", "3,4", "--shape-b", " 4x5"), {"shape": [3, 5, 4]}),
    (("plan", "herk", "A.npy", "--diag", "w.npy"), {"shape": [M, M, K]}),
    (EXACT, {"error_bound": 0}),
    (("info", "A.npy"), {"shape": [M, K], "chunks": None, "missing_chunks": 0}),
    (("doctor",), {"ok": True}),
    (("clean", "."), {"leftovers": []}),
]


@pytest.mark.parametrize(("command", "fields"), LINES)
def test_every_command_prints_a_line_of_json(call, a, b, command, fields):
    np.save("w.npy", np.ones(K))
    np.save("I.npy", np.ones((3, 4), "i2"))
    code, out, err = call(*command, "--json")
    assert (code, out.count("\n")) == (0, 1)
    assert err.count("\n") == ("C.npy" in command)
    found = json.loads(out)
    assert {name: found[name] for name in fields} == fields


LOOSE = ("--accuracy", "componentwise", "--no-equilibrate")
TEXTS = [
    (("info", "A.zarr"), ("40 x 20", "complex64", "16 x 16", "6.25 kiB")),
    (("status", "A.zarr"), ("it has no record of a job",)),
    ((*GEMM, "--verbose"), ("asked for        accuracy componentwise",)),
    (("plan", "gemm", "A.npy", "B.npy"), ("for tiles",)),
    (("gemm", "A.npy", "B.npy", "-o", "W.zarr", *HERE, *LOOSE), ("gemm",)),
    (("info", "W.zarr"), ("accuracy componentwise",)),
]


def test_texts_have_what_matters(call, a, b):
    save("A.zarr", make(40, 20, 8, "c8"))
    for command, parts in TEXTS:
        code, out, _ = call(*command)
        assert code == 0
        assert all(part in out for part in parts), out


def test_the_docs_have_the_exit_codes_of_the_help():
    page = (ROOT / "docs" / "files.md").read_text("utf-8")
    table = page.partition("| exit code |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", table, re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == failures.EXIT_CODES


@pytest.mark.parametrize("threads", [None, 3])
@cases("command", [("gemm", "A.npy", "B.npy"), ("herk", "A.npy")])
def test_a_plan_is_that_of_the_job(call, a, b, command, threads):
    """And of workers that share the cores, where nothing else is said."""
    sizes = ("--n-workers", "1", "--memory-limit", "1GiB", "--chunks", "10")
    flags = ("--threads-per-worker", str(threads)) if threads else ()
    code, out, _ = call("plan", *command, *sizes, *flags, "--json")
    routine, *given = command
    function = td.multiply_files if routine == "gemm" else td.update_files
    given = [td.herk, "A.npy"] if routine == "herk" else given
    workers = {"n_workers": 1, "memory_limit": "1 GiB", "chunks": 10}
    workers["threads_per_worker"] = threads or CPU_COUNT
    expected = json.loads(td.plan(function, *given, **workers).to_json())
    # Advice depends on the CPU.
    found = {**json.loads(out), "notes": expected["notes"]}
    assert (code, {x: found[x] for x in expected}) == (0, expected)


def test_a_plan_tells_of_waves(call):
    shapes = ("--shape-a", "8000,4000", "--shape-b", "4000x80")
    flags = ("--n-workers", "2", "--memory-limit", "550MiB", "--chunks", "90")
    waves = json.loads(call("plan", "gemm", *shapes, *flags, "--json")[1])["waves"]
    assert waves > 1
    assert f" in {waves} waves, " in call("plan", "gemm", *shapes, *flags)[1]


# --- failures while running -----------------------------------------------------------


def spoil(path):
    chunk = Path(path)
    chunk.write_bytes(chunk.read_bytes()[:-3])


@pytest.mark.parametrize("debug", [False, True])
def test_a_failure_leaves_what_was_there(call, tmp_path, b, debug):
    save("A.zarr", make(M, K, 9))
    save("C.npy", np.eye(3))
    spoil("A.zarr/c/1/0")
    before = visible(tmp_path)
    # One thread, so that no other tile is read before the first is computed.
    one = ("--num-moduli", "16", "--threads-per-worker", "1")
    flags = ("--overwrite", *one, *HERE, *(("--debug",) * debug))
    code, out, err = call("gemm", "A.zarr", "B.npy", "-o", "C.npy", *flags)
    assert (code, out) == (1, "")
    _, kept, *trace, sentence = err.splitlines()
    assert re.match(r"twom-dist: error: '.*A\.zarr \[.*\]' could not be read", sentence)
    assert (trace[:1] == ["Traceback (most recent call last):"]) == debug
    assert debug or not trace
    assert "tiles are kept in '" in kept
    assert visible(tmp_path) == before


def test_a_job_that_ends_before_its_first_tile_keeps_nothing(call, b):
    save("A.zarr", make(M, K, 9))
    spoil("A.zarr/c/1/0")
    code, _, err = call("gemm", "A.zarr", "B.npy", "-o", "C.npy", "--n-workers", 0)
    assert (code, "no tile was finished" in err) == (1, True)
    call.assert_refuses("status", "C.npy", why="no-job")


ENDINGS = [
    (KeyboardInterrupt, 130, "interrupted"),
    (MemoryError, 1, "out-of-memory"),
    (ZeroDivisionError, 1, "unexpected"),
    # Of distributed, and told by its name.
    ("KilledWorker", 1, "worker-killed"),
    ("FutureCancelledError", 1, "job-cancelled"),
    ("CommClosedError", 1, "scheduler-gone"),
]


def test_every_end_has_its_code(call, tmp_path, a, b, monkeypatch):
    before = contents(tmp_path)

    for kind, exit_code, code in ENDINGS:
        error = type(kind, (Exception,), {}) if isinstance(kind, str) else kind
        monkeypatch.setattr(jobs, "compute", Mock(side_effect=error))
        found, out, err = call("gemm", "A.npy", "B.npy", "-o", "C.h5", *HERE, "--json")
        said = json.loads(out)
        assert (found, said["code"]) == (exit_code, code)
        # A job that continues keeps its tiles.
        assert ("--chunks" in said["remedy"]) == ("--overwrite" in said["remedy"])
        assert err.splitlines()[-1].startswith("twom-dist: error: ")
        assert contents(tmp_path) == before


# --- scripts --------------------------------------------------------------------------


def executables(folder):
    return {path.name: path.stat().st_mode & 0o111 for path in folder.iterdir()}


def test_the_scripts_are_written_and_what_is_there_is_kept(call, here):
    """Unless told otherwise; a link is replaced and not followed."""
    code, out, err = call("scripts", "jobs/my scripts")
    assert (code, err) == (0, "")
    assert "jobs/my scripts/README.md" in out
    written, precious = here / "jobs/my scripts", here / "precious"
    assert contents(written) == contents(CLUSTER)
    assert executables(written) == executables(CLUSTER)
    precious.write_text("as it was")
    (written / "worker.sh").unlink()
    (written / "worker.sh").symlink_to(precious)
    before = contents(here)
    call.assert_refuses("scripts", written, why="scripts-exist")
    assert contents(here) == before
    assert call("scripts", written, "--overwrite")[0] == 0
    assert precious.read_text() == "as it was"
    assert contents(written) == contents(CLUSTER)
    assert not (written / "worker.sh").is_symlink()


@pytest.mark.parametrize(
    ("place", "code"),
    [("jobs/worker.sh/mine", "scripts-exist"), ("jobs", "scripts-not-written")],
)
def test_scripts_that_cannot_be_replaced_stay(call, here, place, code):
    (here / place).parent.mkdir(parents=True, exist_ok=True)
    (here / place).touch()
    before = contents(here)
    call.assert_refuses("scripts", "jobs", "--overwrite", why=code)
    assert contents(here) == before


def test_scripts_of_which_one_cannot_be_written_are_not_replaced(call, here):
    """As on a full disk."""
    assert call("scripts", "jobs")[0] == 0
    for path in (here / "jobs").iterdir():
        path.write_text(f"{path.name}, as it was")
    (here / "jobs" / "worker.sh").unlink()
    before = contents(here)
    largest = max(x.stat().st_size for x in CLUSTER.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, limits[1]))
        why = "scripts-not-written"
        call.assert_refuses("scripts", "jobs", "--overwrite", why=why)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(here) == before
