"""The model of many workers: it runs, and the documentation shows what it prints."""

import sys
from pathlib import Path

import pytest

from benchmarks import model

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "scaling-out.md").read_text("utf-8")


@pytest.mark.parametrize(
    "options",
    [
        "--machine h200 --size 131072 --tile 8192 --link 5e10 --routine herk",
        "--fits",
    ],
)
def test_the_documentation_shows_what_the_model_prints(options, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["model.py", *options.split()])
    model.main()
    assert capsys.readouterr().out in TEXT


def test_every_routine_has_a_prediction_or_does_not_fit(capsys):
    for routine in ("gemm", "herk", "syr2k"):
        for name, machine in model.MACHINES.items():
            for workers in (1, 6, 64):
                plan = model.fitting(routine, 65536, 8192, workers, machine)
                assert (plan is None) == (name == "h200" and workers == 1)
                if plan is not None:
                    found = model.predict(plan, machine, 5e10)
                    assert 0 < found.efficiency < 1


def test_workers_that_share_k_are_predicted():
    machine = model.MACHINES["cpu"]
    plan = model.make_plan("gemm", 2048, 1024, 8, machine)
    assert plan.worker_grid[2] == 2
    assert 0 < model.predict(plan, machine).efficiency < 1
