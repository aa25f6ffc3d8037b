"""Advice in plans of jobs: another method, another op, one tile."""

import dask

import twom_dist as td
from tests.support.cases import cases

TALL, SQUARE = (200_000, 400), (2000, 2000)


def notes(shape, routine=td.herk, *, below=10**6, **options):
    """Advise where all products below a side are faster natively."""
    with dask.config.set({"twom-dist.blas-below": below}):
        plan = td.plan(td.update_files, a=shape, routine=routine, **options)
    assert str(plan).count("note  ") == len(plan.notes)
    return plan.notes


def test_a_plan_of_a_job_says_that_the_native_product_is_faster():
    [note] = notes(SQUARE, op="C", n_workers=2)
    assert note.startswith("method 'auto' would be native")
    given = {"num_moduli": 12}, {"accuracy": 1e-10}, {"method": "blas"}, {"below": 0}
    for options in given:
        assert notes(SQUARE, op="C", n_workers=2, **options) == ()
    # Of small products nothing is said.
    assert notes((100, 100)) == ()


@cases(("routine", "op"), [(td.herk, "C"), (td.syrk, "T")])
def test_a_plan_says_how_large_the_result_is_with_the_other_op(routine, op):
    [note, *_] = notes(TALL, routine, method="blas", n_workers=2)
    size = "C is 200000 x 200000, 596.05 GiB"
    assert note == f"{size}; with op {op} it would be 400 x 400"
    [note, *_] = notes(TALL[::-1], routine, op=op, method="blas", n_workers=2)
    assert note == f"{size}; with op N it would be 400 x 400"


def test_a_plan_says_what_a_stopped_job_of_one_tile_keeps():
    [note] = notes(TALL, op="C", method="blas", chunks=400)
    assert note == "C is one tile: a stopped job multiplies from the beginning"
    assert notes((40, 50), op="C", method="blas") == ()
