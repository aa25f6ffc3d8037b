"""The page of figures shows what was measured."""

import json
import re

from tests.support.places import ROOT

BENCHMARKS, DOCS = ROOT / "benchmarks", ROOT / "docs"
RESULTS = BENCHMARKS / "results"


def test_the_page_shows_what_is_recorded(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
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
