"""What the GPU benchmarks compute beside measuring: no GPU is needed."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import twom_dist as td
from benchmarks.gpu_energy import Meter, measure_energy
from benchmarks.gpu_peers import (
    FIRST_BY_2M,
    NEWEST_KNOWN,
    compare,
    find_peers,
    find_unloaded,
    read_results,
    version_name,
    warn_of_age,
)
from benchmarks.gpu_reference import Reference
from benchmarks.gpu_schedule import PARTS, REPEATS, SIZES, estimate_seconds


class NVMLError(Exception):
    """The error of pynvml."""


class Machine:
    """A clock, and a GPU that draws 500 W by it; NVML may lack some counters."""

    def __init__(self, *lacks):
        self.now, self.calls, self.lacks = 0.0, 0, lacks

    def call(self):
        self.calls += 1
        self.now += 0.03125

    def answer(self, name, value):
        if name in self.lacks:
            raise NVMLError("not supported")
        return value

    def nvml(self):
        """Stand in for the module pynvml."""
        functions = {
            "nvmlDeviceGetTotalEnergyConsumption": lambda gpu: self.answer(
                "energy", round(500e3 * self.now)
            ),
            "nvmlDeviceGetClockInfo": lambda gpu, kind: self.answer("clock", 1400),
            "nvmlDeviceGetTemperature": lambda gpu, kind: self.answer("heat", 60),
        }
        return SimpleNamespace(
            NVMLError=NVMLError, NVML_CLOCK_SM=1, NVML_TEMPERATURE_GPU=0, **functions
        )

    def measure(self, nvml):
        meter = Meter(nvml, "gpu")
        return measure_energy(self.call, meter, int, clock=lambda: self.now)


def test_joules_are_those_of_a_call():
    machine = Machine()
    found = machine.measure(machine.nvml())
    # 4 calls of 1/32 s are queued at once, for 2 s, after two more.
    assert machine.calls == 2 + 64
    assert found == {
        "seconds": 0.03125,
        "joules": 15.625,
        "watts": 500.0,
        "megahertz": 1400,
        "celsius": 60,
    }


def test_missing_counters_are_none_and_said_once(capsys):
    machine = Machine("energy", "clock")
    found = machine.measure(machine.nvml())
    assert [found[x] for x in ("joules", "watts", "megahertz")] == [None] * 3
    assert found["celsius"] == 60
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_without_nvml_only_the_time_is_known(capsys):
    found = Machine().measure(None)
    assert found.pop("seconds") == 0.03125
    assert set(found.values()) == {None}
    assert capsys.readouterr().err == ""


def test_older_versions_of_cublas_are_named():
    assert version_name(130100) == "13.1.0"
    assert warn_of_age(NEWEST_KNOWN) is None
    assert warn_of_age(140000) is None
    newer, older = warn_of_age(FIRST_BY_2M), warn_of_age(FIRST_BY_2M - 1)
    assert "13.7.0" in newer
    assert "2M" in older
    assert "2M" not in newer


def test_the_estimate_for_each_half_is_below_ten_minutes():
    for part in PARTS:
        assert 30 < estimate_seconds(part, SIZES, REPEATS) < 600
    # However slow the peers: they are stopped.
    assert estimate_seconds("peers", [32768], 50) < 600
    small, large = (estimate_seconds("ours", [n], 5) for n in (4096, 16384))
    assert small < large


def test_peers_are_compared_in_their_environment(monkeypatch, capsys):
    def run(command, environment, timeout):
        script, sizes, *others = command[1:]
        assert Path(script).name == "gpu_compare.py"
        assert (sizes, others, timeout) == ("8,16", ["16", "5"], 60)
        return [environment], "no memory" if environment["on"] == "2" else ""

    monkeypatch.setattr("benchmarks.gpu_peers.run_peer", run)
    peers = {"a": {"on": "1"}, "b": {"on": "2"}}
    assert dict(compare(peers, [8, 16], 16, 5, timeout=60)) == peers
    assert capsys.readouterr().err == "warning: b: no memory\n"


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("", []),
        ("a message\n12\n" + json.dumps({"n": 1, "error": {"norm": 1e-17}}), 1),
        ('{"n": 1}\n{"n": 2, "tfl', 1),
    ],
)
def test_only_whole_objects_are_results(printed, found):
    assert [x["n"] for x in read_results(printed)] == ([found] if found else [])


def test_gemmul8_is_a_peer_where_its_library_is_given(tmp_path):
    assert list(find_peers(None)) == ["cuBLAS eager", "cuBLAS performant"]
    library = tmp_path / "libgemmul8.so"
    peers = find_peers(str(library))
    added = [x for x in peers.values() if "LD_PRELOAD" in x]
    assert [x["GEMMUL8_FASTMODE_Z"] for x in added] == ["0", "1"]
    assert {x["LD_PRELOAD"] for x in added} == {str(library)}


def test_a_library_that_the_loader_left_out_is_found():
    maps = "7f00-7f01 r-xp 00000000 00:00 0 /lib/libgemmul8.so"
    assert find_unloaded({}, maps) == []
    assert find_unloaded({"LD_PRELOAD": "/lib/libgemmul8.so"}, maps) == []
    assert find_unloaded({"LD_PRELOAD": "/lib/x.so"}, maps) == ["/lib/x.so"]


@pytest.mark.parametrize("dtype", ["complex128", "float64", "complex64"])
def test_errors_are_those_of_exact_sums(dtype):
    A, B = (td.testing.random_matrix(6, 6, dtype=dtype, seed=s) for s in (1, 2))
    C = A @ B
    C[2, 3] *= 1 + 1e-5
    found = Reference(A, B).errors(C)
    exact = td.testing.sampled_errors(A, B, C, samples=400)
    assert found["componentwise"] == pytest.approx(exact["componentwise"], rel=1e-6)
    assert 0 < found["norm"] < found["componentwise"]


def test_errors_of_tall_matrices_are_those_of_some_rows():
    A, B = np.eye(10), np.ones((10, 3))
    C = A @ B
    reference = Reference(A, B, most_rows=4)
    C[1] = 0
    assert reference.errors(C) == {"componentwise": 0.0, "norm": 0.0}
    C[9] = 0
    assert reference.errors(C) == {"componentwise": 1.0, "norm": 0.5}
