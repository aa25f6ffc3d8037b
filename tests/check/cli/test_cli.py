"""The command line: files in, a file out, an exit code for every end."""

import json
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import K, M, N, contents, make, read, save, visible
from tests.support.layouts import lay_out
from tests.support.places import ROOT
from twom_dist import jobs
from twom_dist.cli import failures
from twom_dist.cli.options import NUMBER, SHAPE
from twom_dist.cluster.local import choose_workers
from twom_dist.plan import Cluster
from twom_dist.plan.memory import MemoryBudget
from twom_dist.run import advice

ROUTINES = ["gemm", "herk", "syrk", "her2k", "syr2k"]
BY_SHAPE = ("--shape-a", "8000,4000", "--shape-b", "4000x80")
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


def test_the_docs_have_the_exit_codes_of_the_help():
    page = (ROOT / "docs" / "files.md").read_text("utf-8")
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
        (("plan", "gemm", "A.npy", "B.npy"), {"waves": 1}),
        (("info", "A.npy"), {"shape": [M, K], "chunks": None, "missing_chunks": 0}),
        (("doctor",), {"ok": True}),
        (("clean", "."), {"leftovers": []}),
    ],
)
def test_every_command_prints_a_line_of_json(call, a, b, command, fields):
    code, out, err = call(*command, "--json")
    assert (code, out.count("\n")) == (0, 1)
    assert err.count("\n") == ("C.npy" in command)
    found = json.loads(out)
    assert {name: found[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("info", "none.npy"), "file-missing"),
        (("plan", "gemm", "A.npy", "A.npy"), "shapes"),
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


def test_info_describes_a_matrix(call):
    save("A.zarr", make(40, 20, 8, "c8"))
    code, out, _ = call("info", "A.zarr")
    assert code == 0
    for part in ("40 x 20", "complex64", "16 x 16", "6.25 kiB"):
        assert part in out


def test_a_job_says_as_it_begins_what_would_be_faster_or_smaller(call, monkeypatch):
    monkeypatch.setattr(advice, "_LEAST_PRODUCT", 0)
    np.save("T.npy", np.ones((80, 8)))
    code, _, err = call("herk", "T.npy", "-o", "C.npy", *HERE)
    smaller, _, faster = err.splitlines()
    told = "C is 80 x 80, 50.00 kiB; with op C it would be 8 x 8"
    assert (code, smaller) == (0, f"twom-dist: {told}")
    assert faster.startswith("twom-dist: method 'auto' would be native")
    assert call("herk", "T.npy", "-o", "D.npy", *HERE, "--quiet")[2] == ""


def test_a_plan_without_workers_is_that_of_the_workers_that_would_start(call, a, b):
    command = ("plan", "gemm", "A.npy", "B.npy", "--json")
    own = choose_workers()
    flags = ("--n-workers", str(own.workers), "--threads-per-worker", str(own.threads))
    flags += ("--memory-limit", str(own.memory.limit))
    assert call(*command) == call(*command, *flags)
    assert "for tiles" in call(*command[:-1])[1]


@pytest.mark.parametrize("threads", [None, 3])
@pytest.mark.parametrize(
    ("command", "shape", "tile", "options"),
    [
        (("gemm", "A.npy", "B.npy"), (M, N, K), 10, {}),
        (("herk", "A.npy", "--op", "C"), (K, K, M), 10, {"op": "C"}),
        (("gemm", *BY_SHAPE), (8000, 80, 4000), 90, {}),
    ],
)
def test_a_plan_is_that_of_the_job(
    call, a, b, command, shape, tile, options, threads, monkeypatch
):
    """With whole tiles, the last ones smaller, and the share of the processes."""
    monkeypatch.setattr(import_module("twom_dist.cli.plan"), "CPU_COUNT", 8)
    flags = ("--n-workers", "2", "--memory-limit", "550MiB", "--chunks", str(tile))
    flags += ("--threads-per-worker", str(threads)) if threads else ()
    # Where nothing is said, as many as gemm would give each.
    cluster = Cluster(2, threads or 4, MemoryBudget(550 * 2**20, "job"))
    routine = "herk" if options else "gemm"
    layout = lay_out(shape, "c16", cluster, tile=tile, routine=routine, **options)
    waves = len(layout.waves)
    assert (waves > 1) == (tile == 90)
    expected = json.loads(layout.plan(layout.waves[0], cluster).to_json())
    code, out, _ = call("plan", *command, *flags, "--json")
    # Advice depends on the CPU.
    found = {**json.loads(out), "notes": []}
    assert (code, found) == (0, {**expected, "waves": waves})
    code, out, _ = call("plan", *command, *flags)
    assert (code, f" in {waves} waves, " in out) == (0, waves > 1)


def test_numbers_and_shapes_are_parsed():
    numbers = {"1+2j": 1 + 2j, "-.5": -0.5, "1e3": 1000, "j": 1j}
    assert {text: NUMBER(text) for text in numbers} == numbers
    assert SHAPE("3,4") == SHAPE("3x4") == SHAPE(" 3 , 4") == (3, 4)


def test_integers_are_multiplied_exactly(call):
    a = np.random.default_rng(0).integers(-99, 99, (20, 30)).astype("i2")
    np.save("I.npy", a)
    code, out, _ = call("syrk", "I.npy", "-oC.npy", "--exact", *HERE, "--json")
    assert (code, json.loads(out)["num_moduli"]) == (0, 5)
    assert (np.load("C.npy") == a.astype(int) @ a.T).all()
    code, out, _ = call("plan", "syrk", "I.npy", "--exact", "--json")
    assert (code, json.loads(out)["error_bound"]) == (0, 0)
    code, _, err = call("syrk", "I.npy", "-oC.npy", "--exact", "--alpha", "2")
    assert (code, "takes no 'alpha'" in err) == (2, True)


# --- failures while running ---------------------------------------------------------


@pytest.mark.parametrize("debug", [False, True])
def test_a_failure_leaves_what_was_there(call, tmp_path, b, debug):
    save("A.zarr", make(M, K, 9))
    save("C.npy", np.eye(3))
    chunk = Path("A.zarr/c/1/0")
    chunk.write_bytes(chunk.read_bytes()[:-3])
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


def test_a_diagonal_is_a_file(call, a, b):
    np.save("w.npy", np.arange(K) - 3.0)
    given = "--diag", "w.npy", "--json"
    code, out, _ = call("gemm", "A.npy", "B.npy", "-o", "D.npy", *given, *HERE)
    assert code == 0
    assert "|diag|" in json.loads(out)["explanation"]["relative_to"]
    assert (np.load("D.npy") == td.gemm(a, b, diag=np.load("w.npy"))).all()
    code, out, _ = call("plan", "herk", "A.npy", *given)
    assert (code, json.loads(out)["shape"]) == (0, [M, M, K])


def test_verbose_says_how_accurate_the_result_is(call, a, b):
    code, out, _ = call("gemm", "A.npy", "B.npy", "-o", "V.zarr", "--verbose", *HERE)
    assert code == 0
    assert "asked for        accuracy componentwise" in out
    asked = ("--accuracy", "componentwise", "--no-equilibrate")
    code, out, _ = call(
        "gemm", "A.npy", "B.npy", "-o", "W.zarr", "--json", *asked, *HERE
    )
    found = json.loads(out)["explanation"]
    assert (code, found["closed_by"], found["equilibrated"]) == (0, "sums", 0)
    assert "accuracy componentwise" in call("info", "W.zarr")[1]


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
    said = json.loads(out)
    assert (found, said["code"]) == (exit_code, code)
    # A job that continues keeps its tiles.
    assert ("--chunks" in said["remedy"]) == ("--overwrite" in said["remedy"])
    assert err.splitlines()[-1].startswith("twom-dist: error: ")
    assert contents(tmp_path) == before
