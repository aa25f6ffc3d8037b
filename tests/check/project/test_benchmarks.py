"""What benchmarks compute beside measuring, and what the docs show of it."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import twom_dist as td
from benchmarks import gpu_peers, model, small_products
from benchmarks.gpu_energy import Meter, measure_energy
from benchmarks.gpu_reference import Reference
from benchmarks.gpu_schedule import PARTS, REPEATS, SIZES, estimate_seconds
from tests.support.cases import cases
from tests.support.nvml import NVMLError
from tests.support.places import ROOT
from tests.support.sources import read

DOCS = ROOT / "docs"

# --- on GPUs --------------------------------------------------------------------------


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

    def measure(self, has_nvml=True):
        nvml = SimpleNamespace(
            NVMLError=NVMLError,
            NVML_CLOCK_SM=1,
            NVML_TEMPERATURE_GPU=0,
            nvmlDeviceGetTotalEnergyConsumption=lambda gpu: self.answer(
                "energy", round(500e3 * self.now)
            ),
            nvmlDeviceGetClockInfo=lambda gpu, kind: self.answer("clock", 1400),
            nvmlDeviceGetTemperature=lambda gpu, kind: self.answer("heat", 60),
        )
        meter = Meter(nvml if has_nvml else None, "gpu")
        return measure_energy(self.call, meter, int, clock=lambda: self.now)


def test_joules_are_those_of_a_call(capsys):
    machine = Machine()
    expected = {"seconds": 0.03125, "joules": 15.625, "watts": 500.0}
    assert machine.measure() == expected | {"megahertz": 1400, "celsius": 60}
    # 4 calls of 1/32 s are queued at once, for 2 s, after two more.
    assert machine.calls == 2 + 64
    found = Machine().measure(has_nvml=False)
    assert found.pop("seconds") == 0.03125
    assert set(found.values()) == {None}
    assert capsys.readouterr().err == ""
    # Missing counters are said once.
    found = Machine("energy", "clock").measure()
    assert [found[x] for x in ("joules", "watts", "megahertz")] == [None] * 3
    assert found["celsius"] == 60
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_old_versions_of_cublas_are_named_and_each_half_takes_less_than_ten_minutes():
    assert gpu_peers.version_name(130100) == "13.1.0"
    assert gpu_peers.warn_of_age(gpu_peers.NEWEST_KNOWN) is None
    first = gpu_peers.FIRST_BY_2M
    newer, older = (gpu_peers.warn_of_age(x) for x in (first, first - 1))
    assert ("13.7.0" in newer, "2M" in newer, "2M" in older) == (True, False, True)
    assert all(30 < estimate_seconds(x, SIZES, REPEATS) < 600 for x in PARTS)
    # However slow the peers: they are stopped.
    assert estimate_seconds("peers", [32768], 50) < 600


@cases(
    ("printed", "found"),
    [
        ("", []),
        ("a message\n12\n" + json.dumps({"n": 1, "error": {"norm": 1e-17}}), [1]),
        ('{"n": 1}\n{"n": 2, "tfl', [1]),
    ],
)
def test_only_whole_objects_are_results(printed, found):
    assert [x["n"] for x in gpu_peers.read_results(printed)] == found


def test_gemmul8_is_a_peer_where_its_library_is_given_and_loaded():
    cublas = ["cuBLAS eager", "cuBLAS performant"]
    assert list(gpu_peers.find_peers(None)) == cublas
    peers = gpu_peers.find_peers("/opt/libgemmul8.so")
    added = [x for x in peers.values() if "LD_PRELOAD" in x]
    assert [x["GEMMUL8_FASTMODE_Z"] for x in added] == ["0", "1"]
    assert {x["LD_PRELOAD"] for x in added} == {"/opt/libgemmul8.so"}
    maps = "7f00-7f01 r-xp 00000000 00:00 0 /opt/libgemmul8.so"
    assert gpu_peers.find_unloaded({}, maps) == []
    assert gpu_peers.find_unloaded(added[0], maps) == []
    assert gpu_peers.find_unloaded({"LD_PRELOAD": "/x.so"}, maps) == ["/x.so"]


@cases("dtype", ["complex128", "float64", "complex64"])
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
    C, reference = A @ B, Reference(A, B, most_rows=4)
    C[1] = 0
    assert reference.errors(C) == {"componentwise": 0.0, "norm": 0.0}
    C[9] = 0
    assert reference.errors(C) == {"componentwise": 1.0, "norm": 0.5}


# --- models, and statements of the paper ----------------------------------------------


@cases(
    "options",
    [
        "--machine h200 --size 131072 --tile 8192 --link 5e10 --routine herk",
        "--fits",
    ],
)
def test_the_documentation_shows_what_the_model_prints(options, capsys):
    given, sys.argv = sys.argv, ["model.py", *options.split()]
    try:
        model.main()
    finally:
        sys.argv = given
    assert capsys.readouterr().out in read(DOCS / "scaling-out.md")


def test_every_routine_has_a_prediction_or_does_not_fit():
    for routine in ("gemm", "herk", "syr2k"):
        for name, machine in model.MACHINES.items():
            for workers in (1, 6, 64):
                plan = model.fitting(routine, 65536, 8192, workers, machine)
                assert (plan is None) == (name == "h200" and workers == 1)
                if plan is not None:
                    found = model.predict(plan, machine, 5e10)
                    assert 0 < found.efficiency < 1
    machine = model.MACHINES["cpu"]
    plan = model.make_plan("gemm", 2048, 1024, 8, machine)
    assert plan.worker_grid[2] == 2
    assert 0 < model.predict(plan, machine).efficiency < 1


@cases("n", small_products.SIZES)
def test_herk_takes_half_of_what_gemm_takes(n):
    gemm, herk, syrk = (small_products.record(x, n) for x in ("gemm", "herk", "syrk"))
    assert [len(x.launches) for x in (gemm, herk, syrk)] == [4, 3, 3]
    assert [len(x.allocated) for x in (gemm, herk)] == [2, 2]
    # Planes of one side, and residues of half the products.
    assert herk.allocated[0] == pytest.approx(gemm.allocated[0] / 2, rel=1e-3)
    squares = [sum(x.squares for x in own.launches) for own in (gemm, herk, syrk)]
    assert squares[0] == 2 * squares[1]
    # Squares beyond the diagonal are left out.
    side = n // 256
    assert squares[2] == 32 * side * (side + 1) // 2
    steps = [sum(x.steps for x in own.launches) for own in (gemm, herk)]
    assert steps[0] >= 2 * steps[1] > 0
    moved = [[x.nbytes for x in own.launches] for own in (gemm, herk)]
    # All of the result is written, by both.
    for whole, half, share in zip(*moved, (1 / 2, 1 / 2, 2 / 3), strict=False):
        assert half == pytest.approx(share * whole, rel=1e-2)
    assert gemm.predicted > 1.5 * herk.predicted


def test_the_documentation_shows_what_is_predicted(capsys):
    small_products.main()
    assert capsys.readouterr().out in read(DOCS / "launches.md")


def test_statements_that_are_counted_hold(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from statements import count_products, list_bits

    verdicts = {x.statement: x.verdict for x in (*count_products(), *list_bits())}
    differing = [name for name, verdict in verdicts.items() if verdict != "pass"]
    assert differing == ["all Eisenstein moduli have 154.5 bits"]
