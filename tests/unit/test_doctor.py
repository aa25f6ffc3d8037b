"""The doctor: what it says of packages, a machine and workers, and the command.

Machines and workers in disorder are stand-ins; those in order are real, the workers in
tests/distributed/test_local_cluster.py.
"""

from collections import namedtuple
from inspect import signature
from types import SimpleNamespace

import dask
import numpy as np
import pytest

import twom_dist as td
from twom_dist.cli.failures import RefusedError
from twom_dist.cluster import Finding, Report, engines, machine, packages
from twom_dist.cluster.nvml import Gpus
from twom_dist.cluster.workers import check_workers
from twom_dist.errors import KernelError
from twom_dist.kernels import get_engine


def statuses(findings):
    """Names and statuses; what is not right says what to do, and nothing else does."""
    findings = list(findings)
    assert all((x.status == "ok") != bool(x.advice) for x in findings), findings
    return {x.name: x.status for x in findings}


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch):
    """What there is of GPUs is tested beside this."""
    none = Gpus(reason="NVML counts no GPU")
    monkeypatch.setattr("twom_dist.cluster.diagnosis.find_gpus", lambda: none)


# --- the report ---------------------------------------------------------------------


def test_a_report_is_a_line_for_each_finding():
    fine, slow = Finding("disk", "ok", "/tmp"), Finding("a", "warning", "slow", "wait")
    report = Report((fine, slow))
    assert str(report) == "ok       disk  /tmp\nwarning  a     slow; wait"
    assert report.ok
    assert not Report((fine, Finding("b", "failure", "gone", "look"))).ok


def test_this_machine_is_in_order():
    report = td.doctor()
    found = statuses(report.findings)
    assert report.ok, report
    assert {"engine", "int8 product, cpu", "packages", "spill folder", "GPU"} <= set(
        found
    )
    assert found["GPU"] == "ok"
    assert f"numpy {np.__version__}" in str(report)
    assert "exact" in str(report)


def test_a_check_that_breaks_is_a_finding(monkeypatch):
    def fail():
        raise RuntimeError("broken\nand more")

    monkeypatch.setattr(packages, "distributions", fail)
    report = td.doctor()
    assert not report.ok
    assert statuses(report.findings)["pins"] == "failure"
    assert "ended in RuntimeError: broken; reinstall" in str(report)


def test_a_wrong_setting_is_a_finding():
    with dask.config.set({"twom-dist.int8-ops-per-second": "fast"}):
        (found,) = (x for x in td.doctor().findings if x.name == "int8 product, cpu")
    assert found.found == "the setting twom-dist.int8-ops-per-second is 'fast'"
    assert found.advice == "it is a positive number: change it in dask.config"


def test_an_asynchronous_client_is_refused():
    with pytest.raises(TypeError, match="asynchronous client was given; doctor waits"):
        td.doctor(SimpleNamespace(asynchronous=True))


# --- packages -----------------------------------------------------------------------


def installed(monkeypatch, **found):
    """Pretend that these are installed: version, then what each asks for."""
    stand_ins = [
        SimpleNamespace(
            metadata={"Name": name.replace("_", "-")},
            version=version,
            requires=list(requires),
        )
        for name, (version, *requires) in found.items()
    ]
    monkeypatch.setattr(packages, "distributions", lambda: stand_ins)
    return list(packages.check_pins())


def test_pins_that_clash_are_found(monkeypatch):
    (clash,) = installed(
        monkeypatch,
        twom_dist=("0.1.0", "dask[array]>=2025.1", 'pytest; extra == "test"'),
        dask=("2026.8.0", "not-of-ours>=3"),
        distributed=("2026.8.0", "dask<2026.8.1,>=2026.8.0"),
        dask_cuda=("26.10.0", "rapids-dask-dependency==26.10.*"),
        rapids_dask_dependency=("26.10.0", "dask==2026.7.1"),
    )
    assert clash.status == "warning"
    assert str(clash) == (
        "rapids-dask-dependency 26.10.0 asks for dask==2026.7.1, 2026.8.0 is "
        "installed; pip install 'dask==2026.7.1'"
    )


def test_what_the_core_asks_for_must_be_there(monkeypatch):
    found = installed(
        monkeypatch,
        twom_dist=("0.1.0", "zarr>=3.0.10"),
        dask=("2025.1.0",),
        distributed=("2026.8.0", "dask<2026.8.1,>=2026.8.0"),
    )
    assert [x.status for x in found] == ["failure", "failure"]
    assert "asks for zarr>=3.0.10, none is installed" in found[0].found


def test_two_cupys_are_one_too_many(monkeypatch):
    installed(monkeypatch, cupy_cuda12x=("14.0",), cupy_cuda13x=("14.2",))
    assert statuses(packages.check_versions()) == {"packages": "failure"}


# --- the machine --------------------------------------------------------------------


def test_a_quota_below_the_cores_is_told(monkeypatch):
    monkeypatch.setattr("dask.system.CPU_COUNT", 2)
    with dask.config.set({"twom-dist.threads": 3}):
        (found,) = machine.check_cores()
    assert (found.status, "threads to 2" in found.advice) == ("warning", True)
    with dask.config.set({"twom-dist.threads": 2}):
        assert statuses(machine.check_cores()) == {"cores": "ok"}


def test_memory_that_others_hold_is_told(monkeypatch):
    Memory = namedtuple("Memory", "total available")
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 8 << 30)
    for free, status in ((3 << 30, "warning"), (7 << 30, "ok")):
        memory = Memory(16 << 30, free)
        monkeypatch.setattr("psutil.virtual_memory", lambda memory=memory: memory)
        assert statuses(machine.check_memory()) == {"memory": status}


def test_the_spill_folder_is_tried(tmp_path, monkeypatch):
    def check(folder):
        with dask.config.set({"temporary-directory": str(folder)}):
            (found,) = machine.check_spilling()
        return found

    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 1)
    assert check(tmp_path / "not" / "yet").status == "ok"
    (tmp_path / "file").touch()
    broken = check(tmp_path / "file" / "below")
    assert (broken.status, "cannot be written" in broken.found) == ("failure", True)
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 1 << 70)
    assert "less than the workers' memory" in check(tmp_path).found
    monkeypatch.setattr(machine, "_file_system", lambda path: "tmpfs")
    assert "frees no memory; set temporary-directory" in str(check(tmp_path))


# --- int8 on the host -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("patches", "status", "word"),
    [
        ({"select_kernel": lambda: "u8u8"}, "warning", "u8u8, exact"),
        ({"is_exact": lambda gemm: False}, "failure", "no longer exact; test the"),
    ],
)
def test_an_int8_product_that_is_not_the_best(monkeypatch, patches, status, word):
    for name, patch in patches.items():
        monkeypatch.setattr(f"twom_dist.kernels.cpu.int8_gemm.{name}", patch)
    (found,) = engines.check_int8()
    assert (found.status, word in str(found)) == (status, True)


def test_code_that_numba_cannot_keep_is_told(call, a, b, monkeypatch):
    """Of a user without a home, where the package may not be written to."""

    def refuse(name):
        raise RuntimeError("cannot cache function 'f': no locator available for file")

    monkeypatch.setattr("twom_dist.kernels.registry.import_module", refuse)
    get_engine.cache_clear()
    (found,) = engines.check_engine(Gpus(reason="NVML counts no GPU"))
    assert (found.status, found.found) == (
        "failure",
        "engine 'cpu' has no folder to keep what Numba compiles",
    )
    assert found.advice.startswith("set the environment variable NUMBA_CACHE_DIR to")
    _, _, err = call("gemm", "A.npy", "B.npy", "-o", "C.npy", "--workers", "0")
    assert err == f"twom-dist: error: {found}\n"


def test_no_exact_int8_product_is_a_failure(monkeypatch):
    def fail():
        raise KernelError("none is exact; reinstall numpy")

    monkeypatch.setattr("twom_dist.kernels.cpu.int8_gemm.select_kernel", fail)
    expected = Finding(
        "int8 product, cpu", "failure", "none is exact", "reinstall numpy"
    )
    assert list(engines.check_int8()) == [expected]


def test_plans_that_hope_for_too_much_are_told():
    with dask.config.set({"twom-dist.int8-ops-per-second": 1e18}):
        assert statuses(engines.check_int8()) == {"int8 product, cpu": "warning"}


# --- workers ------------------------------------------------------------------------


class FakeClient:
    """A client of one worker that says of itself what it is told to say."""

    scheduler = SimpleNamespace(address="tcp://a:1")

    def __init__(self, packages=None, told=None, limits=(2**31,)):
        self.packages, self.told, self.limits = packages or {}, told, limits

    def nthreads(self):
        return {} if self.told is None else {"tcp://b:2": 4}

    def get_versions(self, check):
        own = {"packages": {"python": "3.11.9", "numpy": "2.4", "lz4": None}}
        other = {"packages": {**own["packages"], **self.packages}}
        return {"client": own, "scheduler": own, "workers": {"tcp://b:2": other}}

    def run(self, function, on_error):
        return {"tcp://b:2": {**function(), **self.told}}

    def run_on_scheduler(self, function):
        if "dask_scheduler" not in signature(function).parameters:
            return function()
        workers = [SimpleNamespace(memory_limit=limit) for limit in self.limits]
        return function(SimpleNamespace(workers=dict(enumerate(workers))))


def test_no_workers_is_a_failure():
    assert statuses(check_workers(FakeClient())) == {"workers": "failure"}


@pytest.mark.parametrize(
    ("packages", "told", "name", "status", "words"),
    [
        ({}, {}, "worker link", "ok", "one worker: nothing travels"),
        ({}, {}, "worker packages", "ok", "the same in all 3 processes"),
        *(
            ({name: "9"}, {}, "worker packages", status, f"{name} is {own}, 9 (tcp://b")
            for name, status, own in (
                ("python", "failure", "3.11 (here and 1 more)"),
                ("dask", "failure", "None (here and 1 more)"),
                ("numpy", "warning", "2.4 (here and 1 more)"),
            )
        ),
        ({"python": "3.11.2"}, {}, "worker packages", "ok", "the same in all 3"),
        ({}, {"version": "9"}, "worker twom-dist", "failure", "9 (tcp://b:2)"),
        (
            *({}, {"error": "No module named 'twom_dist'"}),
            *("worker twom-dist", "failure"),
            "missing in 1 of 2 processes (tcp://b:2: No module named 'twom_dist')",
        ),
        (
            *({}, {"settings": {"threads": 3}}),
            *("worker settings", "warning"),
            "twom-dist.threads is None (here), 3 (tcp://b:2)",
        ),
    ],
)
def test_workers_that_differ(packages, told, name, status, words):
    found = list(check_workers(FakeClient(packages, told)))
    statuses(found)
    assert [
        x for x in found if (x.name, x.status) == (name, status) and words in x.found
    ]


@pytest.mark.parametrize(
    ("limits", "status", "words"),
    [
        ((2**30, 2**31), "ok", "limits of 1 GiB to 2 GiB"),
        ((2**31, 400 * 2**20), "warning", "of 400 MiB to 2 GiB: no room for a tile"),
        ((457 * 2**20,), "warning", "a process takes 320 MiB of the 70% before dask"),
        ((458 * 2**20,), "ok", "limits of 458 MiB"),
        ((0, 0), "ok", "without limits"),
    ],
)
def test_the_memory_of_workers_is_told(limits, status, words):
    found = list(check_workers(FakeClient(told={}, limits=limits)))
    assert statuses(found)["worker memory"] == status
    (memory,) = (x for x in found if x.name == "worker memory")
    assert words in memory.found
    assert memory.advice == ("give each more than 458 MiB" if status != "ok" else "")


# --- the command --------------------------------------------------------------------


def test_the_command_prints_and_succeeds(call):
    code, out, err = call("doctor")
    assert (code, err) == (0, "")
    assert {line[:9] for line in out.splitlines()} <= {"ok       ", "warning  "}


def test_the_command_tells_a_failure(call, monkeypatch):
    broken = Report((Finding("pins", "failure", "they clash", "pip install"),))
    monkeypatch.setattr("twom_dist.cluster.doctor", lambda client: broken)
    assert call("doctor") == (1, "failure  pins  they clash; pip install\n", "")


def test_a_scheduler_that_does_not_answer_is_a_finding(call, monkeypatch):
    def refuse(address, timeout, security):
        raise RefusedError(f"none at {address} in {timeout} s (no; never); look again")

    monkeypatch.setattr("twom_dist.cli.workers.connect", refuse)
    code, out, err = call("doctor", "--scheduler", "tcp://a:1", "--timeout", "3")
    assert (code, err) == (1, "")
    *_, last = out.splitlines()
    assert last.startswith("failure  workers")
    assert last.endswith("none at tcp://a:1 in 3.0 s (no; never); look again")


@pytest.mark.parametrize(
    "flags", [("--scheduler", "a", "--scheduler-file", "b"), ("--no-such-option",)]
)
def test_wrong_usage_is_refused(call, flags):
    code, out, err = call("doctor", *flags)
    assert (code, out, err.count("\n")) == (2, "", 1)
