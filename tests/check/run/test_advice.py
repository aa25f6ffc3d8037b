"""Advice in plans of jobs and on stderr: another method, another op, one tile."""

import twom_dist as td
from tests.support.cases import cases
from twom_dist.crossover import chips
from twom_dist.crossover.chips import Chip

TALL = (200_000, 400)
SLOW, FAST = Chip("a CPU"), Chip("a CPU with VNNI", vnni=True)


def notes(chip, monkeypatch, shape, routine=td.herk, **options):
    monkeypatch.setattr(chips, "_cpu", lambda: chip)
    return td.plan(
        td.update_files, a=shape, routine=routine, engine="cpu", n_workers=2, **options
    ).notes


def test_a_plan_of_a_job_says_that_the_native_product_is_faster(monkeypatch):
    told = "method 'auto' would be native, since int8 is not known to be faster"
    square = (2000, 2000)
    [note] = notes(SLOW, monkeypatch, square, op="C")
    assert note.startswith(told)
    assert notes(FAST, monkeypatch, (4000, 4000), op="C") == ()
    for options in ({"num_moduli": 12}, {"accuracy": 1e-10}, {"method": "blas"}):
        assert notes(SLOW, monkeypatch, square, **options) == ()
    # Of small products nothing is said.
    assert notes(SLOW, monkeypatch, (100, 100)) == ()


@cases("routine", [td.herk, td.syrk])
def test_a_plan_says_how_large_the_result_is_with_the_other_op(routine, monkeypatch):
    op = "C" if routine is td.herk else "T"
    [note, *_] = notes(SLOW, monkeypatch, TALL, routine=routine, method="blas")
    assert (
        note == f"C is 200000 x 200000, 596.05 GiB; with op {op} it would be 400 x 400"
    )
    wide = notes(SLOW, monkeypatch, TALL[::-1], op=op, routine=routine, method="blas")
    assert "with op N it would be 400 x 400" in wide[0]


def test_a_plan_says_what_a_stopped_job_of_one_tile_keeps():
    told = "C is one tile: a stopped job multiplies from the beginning"
    given = {"routine": td.herk, "method": "blas", "op": "C"}
    plan = td.plan(td.update_files, a=TALL, chunks=400, **given)
    assert plan.notes == (told,)
    assert str(plan).splitlines()[-1] == f"note              {told}"
    assert td.plan(td.update_files, a=(40, 50), **given).notes == ()
