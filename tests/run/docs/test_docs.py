"""The examples of the docs run as they stand: those of pages, scripts and notebooks."""

import doctest
import json
import re
import runpy
from contextlib import nullcontext
from itertools import count

import numpy as np
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
    """Take each page whole, or each section where single ones need packages."""
    for page in WITH_EXAMPLES:
        text = page.read_text("utf-8")
        sections = SECTION.split(text)
        if NEEDS.search(sections[0]) or not NEEDS.search(text):
            sections = [text]
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


def test_tables_show_what_is_recorded():
    from benchmarks.figures_page import DRAWN, MACHINES, PICTURES, TABLES, renew

    for page in TABLES:
        assert renew(page) == page.read_text("utf-8"), "run benchmarks/figures_page.py"
    texts = [(DOCS / f"{x}.md").read_text("utf-8") for x in ("figures", "performance")]
    shown = re.findall(r"\(pictures/figures/([\w-]+\.png)\)", "".join(texts))
    assert sorted(shown) == sorted([*(f"{name}.png" for name in DRAWN), MACHINES])
    assert {x.name for x in PICTURES.iterdir()} == {*shown}
    assert sum(x.stat().st_size for x in PICTURES.iterdir()) < 2**18


EXAMPLES = DOCS / "examples"
# The others are programs that are given files.
SCRIPTS = sorted(x for x in EXAMPLES.glob("*.py") if "__main__" not in x.read_text())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda x: x.stem)
def test_scripts_run(path, here, capsys):
    runpy.run_path(str(path))
    assert capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:Consolidated metadata:UserWarning")  # by zarr
def test_the_correlator_goes_on_where_it_stopped(here, capsys):
    require("xarray")
    import xarray as xr

    shape = {"channel": 2, "antenna": 3, "time": 3 * 1024 + 5, "pol": 2, "cplx": 2}
    numbers = np.random.default_rng(1).integers(-128, 128, [*shape.values()], np.int8)
    voltage = xr.DataArray(numbers, {"channel": [1.4, 1.5]}, [*shape])
    cut = voltage.chunk({"channel": 1, "time": 1500})  # no whole blocks
    cut.to_dataset(name="voltage").to_zarr("v.zarr")
    program = runpy.run_path(str(EXAMPLES / "correlator.py"))["correlate"]
    write, calls = xr.Dataset.to_zarr, count()

    def write_some(dataset, *args, **options):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return write(dataset, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xr.Dataset, "to_zarr", write_some)
        with pytest.raises(KeyboardInterrupt):
            program("v.zarr", "r.zarr")
    assert "1 of 3 blocks" in capsys.readouterr().out
    program("v.zarr", "r.zarr")
    end = "r.zarr is complete\n"
    assert capsys.readouterr().out == f"2 of 3 blocks\n3 of 3 blocks\n{end}"
    program("v.zarr", "r.zarr")
    assert capsys.readouterr().out == end
    cut.isel(time=slice(2048)).to_dataset(name="voltage").to_zarr("less.zarr")
    cut.isel(time=slice(9)).to_dataset(name="voltage").to_zarr("few.zarr")
    cut.isel(pol=0).to_dataset(name="voltage").to_zarr("flat.zarr")
    for store, told in (
        ("less.zarr", "r.zarr was begun for other samples"),
        ("none.zarr", "none.zarr is not a zarr store"),
        ("r.zarr", "r.zarr is not a zarr store with an array named voltage"),
        ("few.zarr", "voltage has .*'time': 9"),
        ("flat.zarr", "voltage has .*not channel, antenna, time, pol, cplx and 1024"),
    ):
        with pytest.raises(SystemExit, match=told):
            program(store, "r.zarr")
    found = xr.open_zarr("r.zarr")["visibility"]
    x = numbers.astype("f8").view("c16")[:, :, : 3 * 1024, :, 0].reshape(2, 3, 3, -1)
    x = x.swapaxes(1, 2)
    expected = (x @ x.conj().swapaxes(-1, -2) / 2048).astype("c8")
    assert found.dims == ("channel", "block", "antenna", "antenna_2")
    assert (found.values == expected).all()
    assert (found["channel"].values == [1.4, 1.5]).all()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda x: x.stem)
def test_notebooks_run(path, here, capsys):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = ["".join(x["source"]) for x in cells if x["cell_type"] == "code"]
    names = {"__name__": "__main__"}
    for i, text in enumerate(code):
        exec(compile(text, f"{path.name}, cell {i}", "exec"), names)
    # Nobody runs them to keep what they show.
    assert not any(x.get("outputs") for x in cells)
