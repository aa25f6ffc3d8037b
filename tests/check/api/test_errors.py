"""Errors are data: problem, remedy and code, which survive a trip between processes."""

import pickle

import numpy as np
from distributed.core import error_message
from distributed.protocol.pickle import loads

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist import errors
from twom_dist.errors import TwomError

NAMED = [getattr(errors, name) for name in errors.__all__]
# A warning is the other.
KINDS = [kind for kind in NAMED if issubclass(kind, errors.TwomError)]

EYES = np.eye(2), np.eye(2)


@cases("kind", KINDS)
def test_an_error_is_its_problem_remedy_and_code_wherever_it_is_sent(kind):
    error = kind("cannot write 'C'", "Create the folder first", "no-folder")
    assert str(error) == "cannot write 'C'. Create the folder first."
    assert (error.problem, error.remedy, error.code) == (
        *("cannot write 'C'", "Create the folder first"),
        "no-folder",
    )
    error.add_note("a note")
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is kind
    assert (str(found), found.__dict__) == (str(error), error.__dict__)
    try:
        raise error from OSError(28, "no space")
    except errors.TwomError as caught:
        sent = error_message(caught)
    found = loads(sent["exception"].data)
    assert (type(found), found.code) == (kind, "no-folder")


@cases(
    ("named", "code", "call"),
    [
        ("(500,)", "not-two-dimensional", lambda: td.plan(td.gemm, (500,), (500,))),
        ("alpha", "not-two-dimensional", lambda: td.gemm(np.eye(3), 3)),
        ("takes one matrix", "no-beta", lambda: td.plan(td.herk, (4, 3), (4, 3))),
        ("syrk", "op", lambda: td.herk(np.eye(3), op="T")),
        ("her2k", "op", lambda: td.syr2k(np.eye(3), np.eye(3), op="C")),
        ("Give diag", "unknown-option", lambda: td.gemm(*EYES, weights=[1, 2])),
        ("Give diag", "unknown-option", lambda: td.herk(EYES[0], diagonal=[1, 2])),
        (
            "td.local_cluster(n_workers=...)",
            "unknown-option",
            lambda: td.update_files(td.herk, "A.npy", "C.npy", n_workers=2),
        ),
    ],
)
def test_refusals_name_what_was_given_and_meant(named, code, call):
    with raises(TwomError, code) as caught:
        call()
    assert named in str(caught.value)
