"""The page of figures shows what was measured, and statements of the paper hold."""

import json
import re

import pytest

from tests.support.places import ROOT

BENCHMARKS, DOCS = ROOT / "benchmarks", ROOT / "docs"
RESULTS = BENCHMARKS / "results"


@pytest.fixture
def benchmarks(monkeypatch):
    """Import what lies there as scripts do."""
    monkeypatch.syspath_prepend(BENCHMARKS)


def test_the_page_shows_what_is_recorded(benchmarks):
    from figures_draw import FIGURES
    from statements import Statement, tabulate

    page = (DOCS / "figures.md").read_text("utf-8")
    (name,) = set(re.findall(r"figures-[\w-]+\.jsonl", page))
    lines = map(json.loads, (RESULTS / name).read_text("utf-8").splitlines())
    found = [
        Statement(line["statement"], line["found"], line["verdict"])
        for line in lines
        if line["benchmark"] == "statement"
    ]
    assert tabulate(found) in page
    pictures = {f"pictures/figures/{name}.png" for name, *_ in FIGURES}
    assert set(re.findall(r"pictures/figures/[\w-]+\.png", page)) == pictures
    assert all((DOCS / picture).exists() for picture in pictures)


def test_statements_that_are_counted_hold(benchmarks):
    from statements import count_products, list_bits

    verdicts = {x.statement: x.verdict for x in (*count_products(), *list_bits())}
    differing = [name for name, verdict in verdicts.items() if verdict != "pass"]
    assert differing == ["all Eisenstein moduli have 154.5 bits"]
