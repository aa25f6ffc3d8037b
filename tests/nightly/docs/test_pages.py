"""The pages build without a warning."""

import subprocess
import sys

import pytest

from tests.support.places import ROOT

DOCS = ROOT / "docs"


def test_the_pages_build_without_a_warning(tmp_path):
    for package in ("myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx"):
        pytest.importorskip(package)
    options = ["-W", "--keep-going", "-n", "-q", "-d", str(tmp_path / "read")]
    call = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
