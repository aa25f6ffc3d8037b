"""The examples of the docs run as they stand."""

import doctest
import re
import runpy
from contextlib import nullcontext

import pytest

from tests.support.buckets import serve_bucket
from tests.support.packages import require
from tests.support.places import ROOT

pytestmark = pytest.mark.usefixtures("no_client_left")
DOCS = ROOT / "docs"
BUILT = {"_build", "generated"}
WITH_EXAMPLES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if not BUILT & set(page.parts) and ">>> " in page.read_text("utf-8")
]
README_BLOCKS = re.findall(
    r"^```python\n(.*?)^```$",
    (ROOT / "README.md").read_text("utf-8"),
    re.MULTILINE | re.DOTALL,
)
NEEDS = re.compile(r"<!-- needs (.+) -->")
SECTION = re.compile(r"^(?=## )", re.MULTILINE)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def find_examples():
    """Take each page whole, but of recipes each section, which may need packages."""
    for page in WITH_EXAMPLES:
        text = page.read_text("utf-8")
        sections = SECTION.split(text) if NEEDS.search(text) else [text]
        line = 0
        for section in sections:
            title = section.partition("\n")[0].strip("# ")
            if ">>> " in section:
                name = page.name if section is text else f"{page.name}: {title}"
                yield pytest.param(section, page, line, id=name)
            line += section.count("\n")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # by sessions of s3fs
@pytest.mark.filterwarnings("ignore:Consolidated metadata:UserWarning")  # by zarr
@pytest.mark.parametrize(("text", "page", "line"), [*find_examples()])
def test_examples_give_what_they_say(text, page, line):
    for packages in NEEDS.findall(text):
        for package in packages.split(", "):
            require(package)
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), line)
    with serve_bucket("bucket") if "s3://bucket" in text else nullcontext():
        assert doctest.DocTestRunner(optionflags=FLAGS).run(test).failed == 0


@pytest.mark.parametrize("number", range(len(README_BLOCKS)))
def test_blocks_of_the_readme_are_scripts(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "block.py"
    script.write_text(README_BLOCKS[number])
    runpy.run_path(str(script), run_name="__main__")


def test_the_page_of_figures_shows_what_is_recorded():
    from benchmarks.figures_page import FIGURES, PAGE, PICTURES, renew

    page = PAGE.read_text("utf-8")
    assert renew(page) == page, "run benchmarks/figures_page.py"
    pictures = {f"{name}.png" for name, *_ in FIGURES}
    assert set(re.findall(r"\(pictures/figures/([\w-]+\.png)\)", page)) == pictures
    assert {x.name for x in PICTURES.iterdir()} == pictures
    assert sum(x.stat().st_size for x in PICTURES.iterdir()) < 2**18
