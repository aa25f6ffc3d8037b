"""The figures that were measured can be drawn."""

import json

import pytest

from tests.support.places import ROOT

BENCHMARKS = ROOT / "benchmarks"
RECORDED = sorted((BENCHMARKS / "results").glob("figures-*.jsonl"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_figures_are_drawn(monkeypatch, tmp_path, path):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from figures_draw import FIGURES, draw_all

    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    page = draw_all(lines, tmp_path).read_text("utf-8")
    assert {x.stem for x in tmp_path.glob("*.png")} == {name for name, *_ in FIGURES}
    assert page.count("data:image/png;base64,") == len(FIGURES)
    for part in (lines[0]["device"], lines[0]["commit"], "Statements of the paper"):
        assert part in page
