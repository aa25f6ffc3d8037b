"""The examples of the docs run as they stand."""

import doctest
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

import twom_dist
from tests.buckets import serve_bucket

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WITH_EXAMPLES = sorted(p for p in DOCS.glob("*.md") if ">>> " in p.read_text("utf-8"))
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
@pytest.mark.parametrize(("text", "page", "line"), [*find_examples()])
def test_examples_give_what_they_say(text, page, line):
    for packages in NEEDS.findall(text):
        for package in packages.split(", "):
            pytest.importorskip(package)
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), line)
    with serve_bucket("bucket") if "s3://bucket" in text else nullcontext():
        assert doctest.DocTestRunner(optionflags=FLAGS).run(test).failed == 0


def test_there_are_pages_with_examples():
    assert [x.name for x in WITH_EXAMPLES] == [
        "accuracy.md",
        "arrays.md",
        "covariance.md",
        "recipes.md",
    ]


@pytest.mark.slow
def test_the_pages_build_without_a_warning(tmp_path):
    for package in ("myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx"):
        pytest.importorskip(package)
    options = ["-W", "--keep-going", "-n", "-q", "-d", str(tmp_path / "read")]
    call = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_the_reference_lists_the_public_names():
    text = (DOCS / "api.md").read_text("utf-8")
    listed = set(re.findall(r"^   (\w+)$", text, re.MULTILINE))
    modules = {"__version__", "errors", "testing"}
    assert listed == set(twom_dist.__all__) - modules
    named = set(re.findall(r"^   (testing\.\w+)$", text, re.MULTILINE))
    assert named == {f"testing.{name}" for name in twom_dist.testing.__all__}
