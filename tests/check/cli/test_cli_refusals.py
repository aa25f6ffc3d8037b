"""What cannot be is refused in one sentence, and nothing is written.

These are refusals of the command itself, and of jobs whose output would take the place
of an input; what a problem, a store or a plan refuses is tested with them.
"""

import json

import pytest
from click import UsageError

from tests.support.command import contents, save_more

TO = ("--n-workers", "0", "-o")
PAIR = ("A.npy", "B.npy", *TO)
PRODUCT = (*PAIR, "C.npy")
AT = ("A.npy", "B.npy", "-o", "C.npy", "--timeout", "0.3")
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
    (
        (*AT, "--scheduler", "tcp://h:1", "--scheduler-file", "f"),
        "workers-of-scheduler",
    ),
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
    (("plan", "gemm", "A.npy"), "one-input"),
    (("plan", "gemm", "A.npy", "B.npy", "--shape-b", "2,2"), "one-input"),
    (("plan", "herk", "A.npy", "--op-a", "T"), "unknown-option"),
    (("plan", "gemm", "--shape-a", "4"), UsageError),
    (("plan", "gemm", "A.npy", "B.npy", "--dtype", "1+2j"), "dtype"),
    (("plan", "gemm", "--shape-a", "2,2", "--shape-b", "2,100000000000"), "many-tiles"),
    (("plan", "gemm", "A.npy", "B.npy", "--n-workers", "0"), UsageError),
    (("syrk", "A.npy", "-oC.npy", "--exact", "--alpha", "2"), "unknown-option"),
    # Not reported: the mistake is in the command, and nothing was examined.
    (
        ("doctor", "--scheduler", "tcp://h:1", "--scheduler-file", "f"),
        "workers-of-scheduler",
    ),
]
# Beside the sentence, as JSON.
LINES = [
    (("info", "none.npy"), "file-missing"),
    (("plan", "gemm", "A.npy", "A.npy"), "shapes"),
    (("gemm", "--fast"), "usage"),
    (("clean", "none"), "usage"),
]


@pytest.fixture
def before(call, here, a, b):
    """Store more matrices beside A and B; all that is there."""
    return save_more(here, a, b)


def test_what_cannot_be_is_refused_before_any_work(call, here, before):
    refusals = [(("gemm", *arguments), why) for arguments, why in REFUSALS]
    for arguments, why in refusals + OTHER_REFUSALS:
        call.assert_refuses(*arguments, why=why)
        assert contents(here) == before, arguments


def test_errors_are_json_beside_the_sentence(call, a):
    for command, code in LINES:
        exit_code, out, err = call(*command, "--json")
        found = json.loads(out)
        assert (exit_code, found["code"], found["exit"]) == (2, code, 2)
        assert err.startswith(f"twom-dist: error: {found['error']}")
        assert found["remedy"] in err
