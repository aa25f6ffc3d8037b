"""The command line: files in, a file out, and words that say what they must.

What a problem, a store or a plan refuses is tested with them.
"""

import json
import os
import re
import resource
import warnings
from pathlib import Path
from unittest.mock import Mock

import dask
import numpy as np
import pytest
from click import UsageError
from dask.system import CPU_COUNT

import twom_dist as td
from tests.support.cases import cases
from tests.support.command import K, M, N, contents, make, read, save
from tests.support.expect import same_bits
from tests.support.places import CLUSTER, ROOT
from twom_dist import jobs
from twom_dist.cli import failures

ROUTINES = ["gemm", "herk", "syrk", "her2k", "syr2k"]
HERE = ("--n-workers", "0", "--chunks", "16")


@pytest.mark.parametrize("routine", ROUTINES)
def test_every_routine_is_a_command_with_all_options(call, a, routine):
    gemm, hermitian = routine == "gemm", routine[:2] == "he"
    op = {"op_b": "C"} if gemm else {"op": "C" if hermitian else "T", "uplo": "lower"}
    method = "4m" if hermitian else "3m"
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
    assert re.match(r"twom-dist: begins on .+, \d+ tiles to compute\n", err)
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
    np.save("V.npy", v := x.astype("i1").reshape(20, 15, 2))
    assert call("herk", "--pairs", "V.npy", "-oV.zarr", *HERE)[0] == 0
    assert same_bits(read("V.zarr"), td.integers.herk(v, pairs=True))
    single = "--dtype", "complex64", "--alpha", "0.25"
    assert call("herk", "--pairs", "V.npy", "-oS.zarr", *single, *HERE)[0] == 0
    expected = td.integers.herk(v, pairs=True, dtype="complex64", alpha=0.25)
    assert same_bits(read("S.zarr"), expected)
    np.save("w.npy", w := np.arange(K) - 3.0)
    product = ("gemm", "A.npy", "B.npy", "-o", "D.npy", "--diag", "w.npy")
    code, out, _ = call(*product, *HERE, "--json")
    assert "|diag|" in json.loads(out)["explanation"]["relative_to"]
    assert (np.load("D.npy") == td.gemm(a, b, diag=w)).all()


GEMM = ("gemm", "A.npy", "B.npy", "-o", "C.npy", *HERE)
LINES = [
    (GEMM, {"resumed": 0, "shape": [M, N, K]}),
    (("herk", "A.npy", "-o", "H.npy", *HERE, "--quiet"), {"dtype": "complex128"}),
    (("plan", "gemm", "A.npy", "B.npy"), {"waves": 1}),
    (("plan", "gemm", "3,4", "4,5"), {"shape": [3, 5, 4]}),
    (("plan", "gemm", "3x4", "4, 5", "--exact"), {"shape": [3, 5, 4]}),
    (("plan", "herk", "5,4", "--engine", "cuda"), {"n_workers": 1}),
    (("plan", "herk", "5,4", "--engine", "cuda", "--n-hosts", "3"), {"n_workers": 3}),
    (("plan", "herk", "A.npy", "--diag", "w.npy"), {"shape": [M, M, K]}),
    (("plan", "syrk", "I.npy", "--exact"), {"error_bound": 0}),
    (("plan", "herk", "V.npy", "--pairs"), {"shape": [3, 3, 4]}),
    (
        ("plan", "herk", "--pairs", "3,4,2", "--dtype", "complex64"),
        {"shape": [3, 3, 4], "dtype": "complex64"},
    ),
    (("info", "A.npy"), {"shape": [M, K], "chunks": None, "missing_chunks": 0}),
    (("info", "V.npy"), {"shape": [3, 4, 2], "dtype": "int8", "bytes": 24}),
    (("info", "V.npz"), {"shape": [3, 4, 2], "member": "v"}),
    (("doctor",), {"ok": True}),
]


def test_every_command_prints_a_line_of_json(call, a, b, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")  # a plan has GPUs all the same
    np.save("w.npy", np.ones(K))
    np.save("I.npy", np.ones((3, 4), "i2"))
    np.save("V.npy", np.ones((3, 4, 2), "i1"))
    np.savez("V.npz", v=np.ones((3, 4, 2), "i1"))
    for command, fields in LINES:
        code, out, err = call(*command, "--json")
        assert (code, out.count("\n")) == (0, 1)
        assert bool(err) == ("C.npy" in command)
        found = json.loads(out)
        assert {name: found[name] for name in fields} == fields


def test_the_docs_have_the_exit_codes_of_the_help():
    page = (ROOT / "docs" / "files.md").read_text("utf-8")
    table = page.partition("| exit code |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", table, re.MULTILINE)
    assert {int(code): meaning for code, meaning in rows} == failures.EXIT_CODES


@cases("threads", [None, 3])
@cases("command", [("gemm", "A.npy", "B.npy"), ("herk", "A.npy")])
def test_a_plan_is_that_of_the_job(call, a, b, command, threads):
    """And of workers that share the cores, where nothing else is said."""
    sizes = ("--n-workers", "1", "--memory-limit", "1GiB", "--chunks", "10")
    flags = ("--threads-per-worker", str(threads)) if threads else ()
    code, out, _ = call("plan", *command, *sizes, *flags, "--json")
    files, one = (td.multiply_files, *command[1:]), (td.rank_k_files, td.herk, "A.npy")
    expected = td.plan(
        *(one if command[0] == "herk" else files),
        n_workers=1,
        threads_per_worker=threads or CPU_COUNT,
        memory_limit="1 GiB",
        chunks=10,
    )
    found, expected = json.loads(out), json.loads(expected.to_json())
    # Advice depends on the CPU.
    assert code == 0
    for name in expected.keys() - {"notes"}:
        assert found[name] == expected[name], name


@pytest.mark.parametrize("debug", [False, True])
def test_a_failure_leaves_what_was_there(call, tmp_path, b, debug):
    save("A.zarr", make(M, K, 9))
    save("C.npy", np.eye(3))
    os.truncate("A.zarr/c/1/0", 99)
    before = contents(tmp_path)
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
    assert {x: y for x, y in contents(tmp_path).items() if x[0] != "."} == before


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


def test_the_scripts_are_written_and_what_is_there_is_kept(call, here):
    """Unless told otherwise; a link is replaced and not followed."""
    code, out, err = call("scripts", "jobs/my scripts")
    assert (code, err, "jobs/my scripts/README.md" in out) == (0, "", True)
    written, precious = here / "jobs/my scripts", here / "precious"
    assert contents(written) == contents(CLUSTER)
    for path in CLUSTER.iterdir():
        assert (written / path.name).stat().st_mode == path.stat().st_mode
    precious.write_text("as it was")
    (written / "worker.sh").unlink()
    (written / "worker.sh").symlink_to(precious)
    before = contents(here)
    call.assert_refuses("scripts", written, why="scripts-exist")
    call.assert_refuses("scripts", precious, "--overwrite", why="scripts-not-written")
    # As on a full disk.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (999, limits[1]))
        full = ("scripts", written, "--overwrite")
        call.assert_refuses(*full, why="scripts-not-written")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(here) == before
    assert call("scripts", written, "--overwrite")[0] == 0
    assert precious.read_text() == "as it was"
    assert contents(written) == contents(CLUSTER)
    assert not (written / "worker.sh").is_symlink()


TO = ("--n-workers", "0", "-o")
PAIR = ("A.npy", "B.npy", *TO)
PRODUCT = (*PAIR, "C.npy")
AT = ("A.npy", "B.npy", "-o", "C.npy", "--timeout", "0.3")
TWO = ("--scheduler", "tcp://h:1", "--scheduler-file", "f")
# What is refused, and the code or the kind of the error.
REFUSALS = [
    ((*PAIR, "old.npy"), "output-exists"),
    ((*PAIR, 250 * "C" + ".npy"), "name-too-long"),
    ((*PAIR, "A.npy"), "output-is-input"),
    ((*PAIR, "./x/../B.npy"), "output-is-input"),
    (("link.npy", "B.npy", *TO, "A.npy", "--overwrite"), "output-is-input"),
    ((*PAIR, "link.npy", "--overwrite"), "output-is-input"),
    ((*PAIR, "hard.npy", "--overwrite"), "output-is-input"),
    (("A.zarr", "B.npy", *TO, "A.zarr/C.zarr"), "output-is-input"),
    (("A.zarr", "B.npy", *TO, "A.zarr::C"), "output-is-input"),
    ((*PAIR, "c.npy", "--c", "c.npy", "--beta", "1"), "output-is-input"),
    (("A.npy", "-o", "C.npy"), UsageError),
    ((*PRODUCT, "--alpha", "two"), UsageError),
    ((*PRODUCT, "--memory-limit", "1e400"), "memory-limit"),
    ((*PRODUCT, "--dashboard"), "dashboard-of-threads"),
    ((*PRODUCT, "--scheduler", "tcp://h:1"), "workers-of-scheduler"),
    ((*AT, "--insecure", "--scheduler", "tcp://h:1"), "workers-of-scheduler"),
    ((*AT, *TWO), "workers-of-scheduler"),
    ((*AT, "--scheduler", "tcp://127.0.0.1:9"), "no-scheduler"),
    # A client of such an address would complain once more when it is collected.
    ((*AT, "--scheduler", "here"), "no-scheduler"),
    ((*AT, "--scheduler", "tcp://h"), "no-scheduler"),
    ((*AT, "--scheduler", "tcp://h:port"), "no-scheduler"),
    ((*AT, "--scheduler", "http://h:1"), "no-scheduler"),
    ((*AT, "--scheduler-file", "none.json"), "no-scheduler-file"),
    ((*AT, "--scheduler-file", "broken.json"), "no-scheduler-file"),
]
# Of other commands.
OTHER_REFUSALS = [
    (("multiply",), UsageError),
    (("syr2k", "A.npy", "A.zarr", "-o", "A.zarr"), "output-is-input"),
    (("plan", "gemm"), UsageError),
    (("plan", "gemm", "A.npy"), "no-b"),
    (("plan", "herk", "A.npy", "--op-a", "T"), "unknown-option"),
    (("herk", "A.npy", "-oC.npy", "--dtype", "complex64"), "exact-dtype"),
    (("plan", "gemm", "4", "4"), "not-two-dimensional"),
    (("plan", "herk", "--pairs", "4,3,1", "--dtype", "i1"), "pairs-shape"),
    (("plan", "herk", "--pairs", "A.npy"), "pairs-shape"),
    (("plan", "herk", "A.npy", "A.npy"), "two-b"),
    (("plan", "gemm", "3,5,2", "5,3,2"), "stack"),
    (("herk", "--pairs", "--num-moduli", "9", "A.npy", "-oC.npy"), "unknown-option"),
    (("plan", "gemm", "A.npy", "B.npy", "--dtype", "1+2j"), "dtype"),
    (("plan", "gemm", "2,2", "2,100000000000"), "many-tiles"),
    (("plan", "gemm", "A.npy", "B.npy", "--n-workers", "0"), UsageError),
    (("syrk", "A.npy", "-oC.npy", "--exact", "--num-moduli", "9"), "unknown-option"),
    # Not reported: the mistake is in the command, and nothing was examined.
    (("doctor", *TWO), "workers-of-scheduler"),
]


def test_what_cannot_be_is_refused_before_any_work(call, here, a, b):
    os.symlink("A.npy", "link.npy")
    os.link("A.npy", "hard.npy")
    Path("broken.json").write_text("{}")
    for name, x in (("A.zarr", a), ("old.npy", np.eye(2)), ("c.npy", np.zeros((M, N)))):
        save(name, x)
    before = contents(here)
    refusals = [(("gemm", *arguments), why) for arguments, why in REFUSALS]
    for arguments, why in refusals + OTHER_REFUSALS:
        call.assert_refuses(*arguments, why=why)
        assert contents(here) == before, arguments


@cases("setting", ["transport", "winograd-levels", "blas-below"])
def test_settings_are_refused_before_any_work(call, a, setting):
    with dask.config.set({f"twom-dist.{setting}": "abc"}):
        said = call.assert_refuses("herk", "A.npy", *TO, "C.npy", why="setting")
    assert f"twom-dist.{setting} is 'abc' instead of" in said


def test_errors_are_json_beside_the_sentence(call):
    for command, code in ((("info", "x.npy"), "file-missing"), (("gemm",), "usage")):
        exit_code, out, err = call(*command, "--json")
        found = json.loads(out)
        assert (exit_code, found["code"], found["exit"]) == (2, code, 2)
        assert err.startswith(f"twom-dist: error: {found['error']}")
        assert found["remedy"] in err


def test_arguments_are_spelled_as_options(call, a):
    _, _, err = call("gemm", "A.npy", "A.npy", "-oC.npy")
    assert "(--op-a N, --op-b N)" in err
    assert "--op-b C" in err
    save("C.zarr", a)
    assert (
        "Leave --accuracy and --num-moduli out"
        in call(
            *("herk", "A.npy", "-oD.zarr", "--method", "blas", "--num-moduli", "9")
        )[2]
    )
    err = call("herk", "A.npy", "-oD.zarr", "--exact", "--num-moduli", "9")[2]
    assert "herk has no option 'num_moduli'. It takes A, --op, --uplo" in err
    assert "replace it (--overwrite)." in call("herk", "A.npy", "-oC.zarr")[2]


@cases("path", ["alpha=2/A.npy", "takes engine, beta.npy", 'it\'s "N" op_b=C.npy'])
def test_names_of_files_stay_as_they_are(call, a, path):
    Path(path).parent.mkdir(exist_ok=True)
    whole = os.path.abspath(path)
    assert repr(whole) in call("plan", "herk", path)[2]
    _, out, _ = call("herk", "A.npy", "-o", path, "--num-moduli", "2", *HERE)
    assert out.startswith(f"{whole}: herk")
    assert "(takes engine)" in call("herk", "A.npy", "-oC.npy", "takes engine")[2]


def test_warnings_are_sentences_said_once(call):
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((9, 9)) * 10.0 ** rng.integers(-150, 150, (9, 9))
    np.save("W.npy", wide)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, _, err = call("syrk", "W.npy", "-oC.npy", *HERE)
    told = [x for x in err.splitlines() if "native" in x]
    assert (code, len(told)) == (0, 1), err
    assert told[0].startswith("twom-dist: warning: the data need more moduli")
    assert "--num-moduli or --accuracy normwise gives" in told[0]
    assert "Warning:" not in err
