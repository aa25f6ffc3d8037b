"""The demonstration: what it prints, and what it refuses."""

from pathlib import Path

import pytest

import twom_dist as td
from benchmarks import demo
from tests.support.command import make, save
from twom_dist.store import open_matrix


@pytest.fixture
def call(here, capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as caught:
            demo.main(list(arguments), prog_name="demo")
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def test_matrices_are_multiplied_and_checked(call):
    code, out, err = call("--size", "90", "--n-workers", "1")
    assert (code, "error" in err) == (0, False)
    for part in ("gemm, 90 x 90 complex128", "residual", "On this machine"):
        assert part in out
    assert open_matrix("demo-output/C.zarr").shape == (90, 90)
    # Nothing of it gets into a repository by chance.
    assert Path("demo-output/.gitignore").read_text() == "*\n"
    plan = td.plan(td.gemm, (64, 64), (64, 64))
    for seconds, verdict in ((1.2, "slower"), (1.0, "as fast"), (0.8, "faster")):
        assert verdict in demo.compare(plan, 8.1, seconds, 1.0)


def test_what_cannot_be_is_refused(call):
    save("A.npy", make(9, 8, 1))
    for arguments in (
        ("--a", "A.npy"),
        ("--a", "A.npy", "--b", "A.npy"),
        ("--a", "A.npy", "--b", "A.npy", "--size", "9"),
        ("--a", "A.npy", "--b", "none.npy"),
        ("--size", "0"),
        ("--size", "9", "--n-workers", "1000000"),
    ):
        code, _, err = call(*arguments)
        assert (code, err.count("\n")) == (2, 1), arguments
