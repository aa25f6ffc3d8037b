"""The demonstration: what it prints and leaves."""

from pathlib import Path

import pytest

from benchmarks import demo
from twom_dist.store import open_matrix


def test_matrices_are_multiplied_and_checked(here, capsys):
    with pytest.raises(SystemExit) as caught:
        demo.main(["--size", "90", "--n-workers", "1"], prog_name="demo")
    out, err = capsys.readouterr()
    assert (caught.value.code or 0, "error" in err) == (0, False)
    for part in ("gemm, 90 x 90 complex128", "residual", "On this machine"):
        assert part in out
    assert open_matrix("demo-output/C.zarr").shape == (90, 90)
    # Nothing of it gets into a repository by chance.
    assert Path("demo-output/.gitignore").read_text() == "*\n"
    with pytest.raises(SystemExit) as caught:
        demo.main(["--a", "A.npy"], prog_name="demo")
    assert (caught.value.code, capsys.readouterr().err.count("\n")) == (2, 1)
