"""The examples run as they stand, in this process."""

import json
import runpy
from itertools import count

import numpy as np
import pytest

from tests.support.packages import require
from tests.support.places import ROOT

pytestmark = pytest.mark.usefixtures("no_client_left")
EXAMPLES = ROOT / "docs" / "examples"


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
    with pytest.raises(SystemExit, match="begun for other blocks"):
        program("less.zarr", "r.zarr")
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
