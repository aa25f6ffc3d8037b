"""The demonstration: its table, and what it says of a wrong result."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.command import make, save
from twom_dist import demo
from twom_dist.errors import KernelError
from twom_dist.jobs import open_job
from twom_dist.store import open_matrix


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        demo.main(list(arguments), prog_name="demo")
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


def test_the_demonstration_multiplies_compares_and_checks(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "--size", "90", "--workers", "1")
    assert (code, err) == (0, "")
    for row in (
        r"size +90 x 90 times 90 x 90, complex128",
        r"moduli +16 \(2m\)",
        r"effective GFLOP/s +\d+\.\d",
        r"speed over NumPy's +\d+\.\d\d",
        r"C x - A \(B x\)\| +\d\.\de-\d+ of .*, \d\.\de-\d+ allowed",
        r"The result is in .*demo-output/C\.zarr",
    ):
        assert re.search(row, out), row
    assert open_matrix("demo-output/C.zarr").shape == (90, 90)
    # Nothing of it gets into a repository by chance.
    assert Path("demo-output/.gitignore").read_text() == "*\n"


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """A real and a complex matrix, not square."""
    monkeypatch.chdir(tmp_path)
    save("A.npy", make(40, 30, 1, "f8"))
    save("B.zarr", make(30, 50, 2))
    return "A.npy", "B.zarr"


def test_matrices_of_ones_own(pair):
    rows = dict(demo._compare(open_job(*pair, "C.npy"), pair, "C.npy", None))
    assert rows["size"] == "40 x 30 times 30 x 50, complex128"


def test_a_wrong_result_is_told(pair, monkeypatch):
    def spoil(*args, **kwargs):
        summary = multiply(*args, **kwargs)
        values = np.load("C.npy")
        values[7, 9] *= 1 + 1e-9
        np.save("C.npy", values)
        return summary

    multiply = demo.multiply_files
    monkeypatch.setattr(demo, "multiply_files", spoil)
    with pytest.raises(KernelError, match=r"the residual .* above the"):
        demo._compare(open_job(*pair, "C.npy"), pair, "C.npy", None)


def test_entries_that_are_not_finite_cannot_be_checked(pair):
    values = make(30, 50, 3)
    values[3, 4] = np.inf
    np.save("B.npy", values)
    own = ("A.npy", "B.npy")
    rows = dict(demo._compare(open_job(*own, "C.npy"), own, "C.npy", None))
    assert rows["error"].startswith("not checked")


def test_one_matrix_is_not_enough(pair, capsys):
    for arguments in (
        ("--a", "A.npy"),
        ("--a", "A.npy", "--b", "A.npy", "--size", "9"),
    ):
        code, out, err = call(capsys, *arguments)
        assert (code, out) == (2, "")
        assert "give both A=file and B=file (--a and --b), or at most N=size" in err


@pytest.mark.parametrize("size", ["foo", "0", "1.5"])
def test_a_size_is_a_whole_number(capsys, size):
    code, out, err = call(capsys, "--size", size)
    assert (code, out) == (2, "")
    assert f"{size!r} is no positive whole number such as 3; see demo --help" in err
