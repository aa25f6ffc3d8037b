"""The figures that were measured can be drawn, and statements of the paper hold."""

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# Of tiny sizes, to see that they are drawn.
TINY = Path(__file__).parent / "data" / "figures.jsonl"
RECORDED = [TINY, *sorted((BENCHMARKS / "results").glob("figures-*.jsonl"))]


@pytest.fixture
def benchmarks(monkeypatch):
    """Import what lies there as scripts do."""
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_figures_are_drawn(benchmarks, tmp_path, path):
    from figures_draw import FIGURES, draw_all

    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    page = draw_all(lines, tmp_path).read_text("utf-8")
    assert {x.stem for x in tmp_path.glob("*.png")} == {name for name, *_ in FIGURES}
    assert page.count("data:image/png;base64,") == len(FIGURES)
    for part in (lines[0]["device"], lines[0]["commit"], "Statements of the paper"):
        assert part in page


def test_statements_that_are_counted_hold(benchmarks):
    from statements import count_products, list_bits

    verdicts = {x.statement: x.verdict for x in (*count_products(), *list_bits())}
    differing = [name for name, verdict in verdicts.items() if verdict != "pass"]
    assert differing == ["all Eisenstein moduli have 154.5 bits"]
