"""The examples run as they stand, in this process."""

import json
import runpy

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.usefixtures("no_client_left")
EXAMPLES = ROOT / "docs" / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda x: x.stem)
def test_scripts_run(path, here, capsys):
    runpy.run_path(str(path))
    assert capsys.readouterr().out


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
