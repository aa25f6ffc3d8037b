"""The examples of the docs run as they stand."""

import doctest
import re
import runpy
import subprocess
import sys
import tomllib
from contextlib import nullcontext

import pytest

import twom_dist
from docs.measurements import CODE, PAGES, find_faults, find_unsourced
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
@pytest.mark.parametrize(("text", "page", "line"), [*find_examples()])
def test_examples_give_what_they_say(text, page, line):
    for packages in NEEDS.findall(text):
        for package in packages.split(", "):
            require(package)
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), line)
    with serve_bucket("bucket") if "s3://bucket" in text else nullcontext():
        assert doctest.DocTestRunner(optionflags=FLAGS).run(test).failed == 0


def test_there_are_pages_with_examples():
    assert [x.stem for x in WITH_EXAMPLES] == [
        "accuracy",
        "api",
        "add-a-residue-system",
        "covariance",
        "how-it-works",
        "i-have",
        "index",
        "performance",
        "recipes",
        "tutorial",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(README_BLOCKS)))
def test_blocks_of_the_readme_are_scripts(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "block.py"
    script.write_text(README_BLOCKS[number])
    runpy.run_path(str(script), run_name="__main__")


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
    spaces = {"integers", "testing", "twofold", "xarray"}
    assert listed == set(twom_dist.__all__) - {"__version__", "errors", *spaces}
    for space in spaces:
        named = re.findall(rf"^   {space}\.(\w+)$", text, re.MULTILINE)
        assert set(named) == {*getattr(twom_dist, space).__all__}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_measurements_name_their_file(page):
    assert find_faults(page) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It took 3 s on an H200.", 1),
        ("It took 3 s\non an H200\n(`gpu.jsonl`).", 0),
        ("It runs on an H200.", 0),
        ("- fast: 80 TF/s (`gpu.jsonl`)\n- slow: 3 TF/s", 1),
        ("On a Xeon (`x.jsonl`):\n\n| Xeon | 1.5 |\n|---|---|", 0),
        ("On a Xeon.\n\n| Xeon | 1.5 |\n|---|---|", 1),
        ("It was measured on a small machine.", 1),
        ("It took 36 s.", 1),
        ("This was computed, not measured on such a chip.", 0),
        ("```\n3 s on an H200\n```\n", 0),
    ],
)
def test_the_rule_itself(text, count):
    assert len(find_unsourced(text)) == count


def test_links_of_the_readme_are_absolute():
    """It is shown by package indexes, too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    base = project["urls"]["Homepage"] + "/blob/main/"
    text = CODE.sub("", (ROOT / "README.md").read_text("utf-8"))
    links = re.findall(r"\]\(([^)]+)\)|^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)
    for link in map("".join, links):
        assert link.startswith("https://"), link
        if "/blob/main/" in link:
            assert link.startswith(base), link
            assert (ROOT / link.removeprefix(base).partition("#")[0]).exists(), link
