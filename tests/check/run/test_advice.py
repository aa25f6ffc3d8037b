"""Advice in plans of jobs: another method, another op, one tile."""

import dask

import twom_dist as td
from tests.support.cases import cases

TALL, SQUARE = (200_000, 400), (2000, 2000)
BLAS = {"method": "blas"}
LARGE = "C is 200000 x 200000, 596.05 GiB; with op {} it would be 400 x 400".format
ONE = "C is one tile: a stopped job multiplies from the beginning"


@cases(
    ("routine", "shape", "options", "told"),
    [
        (td.herk, SQUARE, {"op": "C"}, "NumPy may be as fast: method='auto'"),
        (td.herk, SQUARE, {"op": "C", "num_moduli": 12}, None),
        (td.herk, SQUARE, {"op": "C", "method": "2m"}, None),
        (
            td.herk,
            SQUARE,
            {"chunks": 128} | BLAS,
            "tiles of 128 x 128 x 128 take longer",
        ),
        (td.herk, (100, 100), {}, None),
        (td.herk, TALL, BLAS, LARGE("C")),
        (td.syrk, TALL, BLAS, LARGE("T")),
        (td.syrk, TALL[::-1], {"op": "T"} | BLAS, LARGE("N")),
        (td.herk, TALL, {"op": "C", "chunks": 400} | BLAS, ONE),
    ],
)
def test_a_plan_of_a_job_says_what_would_be_faster_smaller_or_safer(
    routine, shape, options, told
):
    """Where all products below a side are faster natively."""
    workers = {} if told == ONE else {"n_workers": 2}
    with dask.config.set({"twom-dist.blas-below": 10**6}):
        given = {"a": shape, "routine": routine} | workers | options
        plan = td.plan(td.rank_k_files, **given)
    assert [x.startswith(told or "-") for x in plan.notes[:1]] == [True] * bool(told)
    assert str(plan).count("note  ") == len(plan.notes)
