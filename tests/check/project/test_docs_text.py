"""What the docs say: every public name, measurements with their file."""

import re
import runpy
import tomllib

import twom_dist
from docs.measurements import CODE, PAGES, find_faults
from tests.support.cases import cases
from tests.support.places import ROOT

DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)]+)\)")


def test_the_reference_lists_the_public_names():
    text = (DOCS / "api.md").read_text("utf-8")
    listed = set(re.findall(r"^   (\w+)$", text, re.MULTILINE))
    spaces = {"integers", "numpy", "testing", "twofold", "xarray"}
    assert listed == set(twom_dist.__all__) - {"__version__", "errors", *spaces}
    for space in spaces:
        named = re.findall(rf"^   {space}\.(\w+)$", text, re.MULTILINE)
        assert set(named) == {*getattr(twom_dist, space).__all__}


@cases("page", PAGES)
def test_measurements_name_their_file(page):
    assert find_faults(page) == []


def test_nobody_is_told_to_install_this_package_from_an_index():
    """None has it: whoever took the name there would run as the user."""
    found = re.compile(
        r"twom[-_]dist\[|(install|add|download) [^\n;&|]*\btwom[-_]dist\b"
    )
    texts = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
    for folder in ("twom_dist", "docs", "cluster", ".github", "benchmarks"):
        paths = (ROOT / folder).rglob("*")
        texts += [x for x in paths if x.suffix in (".py", ".md", ".sh", ".yml", ".txt")]
    assert len(texts) > 300
    told = {str(path): found.search(path.read_text("utf-8")) for path in texts}
    assert [path for path, match in told.items() if match] == []


def headings(page):
    found = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", x.lower()).replace(" ", "-") for x in found}


DECISIONS = sorted((DOCS / "decisions").glob("*.md"))


@cases("page", [*PAGES, ROOT / "CONTRIBUTING.md", *DECISIONS])
def test_links_lead_to_files_and_their_headings(page):
    for link in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        if "://" not in path:
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not anchor or anchor in headings(target), link


@cases("path", sorted((DOCS / "pictures").glob("*.py")))
def test_pictures_are_those_that_their_scripts_draw(path):
    drawn = runpy.run_path(str(path))["draw"]()
    assert path.with_suffix(".svg").read_text("utf-8") == drawn + "\n"


def test_links_of_the_readme_are_absolute_in_what_is_built_for_package_indexes():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]
    readme = (ROOT / "README.md").read_text("utf-8")
    links = LINK.findall(CODE.sub("", readme))
    assert not any("://" in link for link in links)
    for each in tool["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        readme = re.sub(each["pattern"], each["replacement"], readme)
    address = re.compile("https://(github|raw.githubusercontent).com/twom-dist/")
    built = LINK.findall(CODE.sub("", readme))
    assert len(built) == len(links)
    assert all(address.match(link) for link in built)
