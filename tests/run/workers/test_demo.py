"""The demonstration: what it prints, and what it says of a wrong result."""

import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest

import twom_dist as td
from benchmarks import demo
from tests.support.command import make, save
from tests.support.jobs import local_workers
from twom_dist.cluster.nvml import Gpu, Gpus
from twom_dist.store import open_matrix


@pytest.fixture
def call(here, capsys, monkeypatch):
    monkeypatch.setattr(demo, "IN_MEMORY", 8)

    def run(*arguments):
        with pytest.raises(SystemExit) as caught:
            demo.main(list(arguments), prog_name="demo")
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def test_random_matrices_and_ones_own_are_multiplied_and_checked(call, monkeypatch):
    code, out, err = call("--size", "90", "--n-workers", "1")
    assert code == 0
    # A job that takes more than ten seconds says how far it is, or in what phase.
    assert all(line.startswith("twom-dist: ") for line in err.splitlines())
    assert "error" not in err
    for part in ("gemm, 90 x 90 complex128", "residual", "On this machine"):
        assert part in out
    assert open_matrix("demo-output/C.zarr").shape == (90, 90)
    # Nothing of it gets into a repository by chance.
    assert Path("demo-output/.gitignore").read_text() == "*\n"
    save("A.npy", make(40, 30, 1, "f8"))
    save("B.zarr", make(30, 50, 2))
    with local_workers(1, processes=False) as client:
        monkeypatch.setattr(td, "local_cluster", lambda **_: nullcontext(client))
        monkeypatch.setattr(demo, "measure_speedup", lambda _: 4.0)
        code, out, _ = call("--a", "A.npy", "--b", "B.zarr")
    assert (code, "residual" in out) == (0, True)


def test_a_gpu_is_used_if_cupy_is_there(monkeypatch, capsys):
    gpus = Gpus((Gpu("NVIDIA H200", 140 << 30, 130 << 30),), (13, 0))
    monkeypatch.setattr(demo, "find_gpus", lambda: gpus)
    for cupy, dask_cuda, expected, told in (
        (ModuleType("cupy"), True, None, "Using 1 of 1 GPU, NVIDIA H200"),
        (ModuleType("cupy"), None, 1, "Using 1 of 1 GPU, NVIDIA H200"),
        (None, None, None, "the cores multiply"),
    ):
        monkeypatch.setattr(demo, "find_spec", lambda _, found=dask_cuda: found)
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        assert demo.choose_workers(None) == expected
        assert told in capsys.readouterr().out
        assert demo.choose_workers(3) == 3
        assert "the cores multiply" in capsys.readouterr().out
    monkeypatch.setattr(demo, "find_gpus", lambda: Gpus(reason="none"))
    monkeypatch.setattr(demo, "DRIVER", Path("none"))
    assert demo.choose_workers(None) is None
    assert not capsys.readouterr().out


def test_the_verdict_follows_the_times(monkeypatch):
    plan = td.plan(td.gemm, (64, 64), (64, 64))
    for seconds, verdict in ((1.2, "slower"), (1.0, "as fast"), (0.8, "faster")):
        assert verdict in demo.compare(plan, 8.1, seconds, 1.0)
    assert demo.measure_speedup("float32") > 0
    monkeypatch.setattr(demo, "IN_MEMORY", 8)
    assert min(demo.time_in_memory("float32")) > 0


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
