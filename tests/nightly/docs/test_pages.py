"""The pages build without a warning, and figures that were measured can be drawn."""

import subprocess
import sys

import pytest

from tests.support.places import ROOT

BENCHMARKS = ROOT / "benchmarks"
RECORDED = sorted((BENCHMARKS / "results").glob("figures-*.jsonl"))


def test_the_pages_build_without_a_warning(tmp_path):
    for package in ("myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx"):
        pytest.importorskip(package)
    options = ["-W", "--keep-going", "-n", "-q", "-d", str(tmp_path / "read")]
    call = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_figures_are_drawn(tmp_path, path):
    from benchmarks.figures_page import FIGURES, draw_all, read_lines

    lines = read_lines(path)
    page = draw_all(lines, tmp_path).read_text("utf-8")
    assert {x.stem for x in tmp_path.glob("*.png")} == {name for name, *_ in FIGURES}
    assert page.count("![") == len(FIGURES)
    for part in (lines[0]["device"], lines[0]["commit"], "Statements of the paper"):
        assert part in page
