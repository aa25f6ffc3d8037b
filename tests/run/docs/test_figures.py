"""The page of figures shows what was measured."""

import re


def test_the_page_shows_what_is_recorded():
    from benchmarks.figures_page import FIGURES, PAGE, PICTURES, renew

    page = PAGE.read_text("utf-8")
    assert renew(page) == page, "run benchmarks/figures_page.py"
    pictures = {f"{name}.png" for name, *_ in FIGURES}
    assert set(re.findall(r"\(pictures/figures/([\w-]+\.png)\)", page)) == pictures
    assert {x.name for x in PICTURES.iterdir()} == pictures
    assert sum(x.stat().st_size for x in PICTURES.iterdir()) < 2**18
