"""The doctor: its findings about engines, GPUs, dask-cuda and workers; the command.

What is broken is a stand-in. What is in order is real; workers that are, in
tests/distributed/test_local_cluster.py.
"""

import asyncio
import sys
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import numpy as np
import pytest
from distributed import Client, Scheduler
from distributed.protocol import dask_serialize

import twom_dist as td
from tests.expect import raises
from twom_dist.cluster import Finding, Report, diagnosis
from twom_dist.cluster.diagnosis import check_workers
from twom_dist.cluster.nvml import Gpu, Gpus
from twom_dist.errors import ArgumentError, KernelError
from twom_dist.kernels import get_engine

GPUS = Gpus((Gpu("NVIDIA H200", 140 << 30, 130 << 30),), (13, 0))


def statuses(findings):
    """Names and statuses; what is not right says what to do, and nothing else does."""
    findings = list(findings)
    assert all((x.status == "ok") != bool(x.advice) for x in findings), findings
    return {x.name: x.status for x in findings}


def test_whatever_stops_a_check_is_a_line_of_the_report():
    def refuse():
        raise KernelError("none is exact", "Reinstall NumPy", "no-exact-product")

    def fail():
        raise RuntimeError("broken\nand more")

    (refused,) = diagnosis.run("engine cpu", refuse)
    assert refused == Finding(
        "engine cpu", "failure", "none is exact", "Reinstall NumPy"
    )
    (failed,) = diagnosis.run("GPU", fail)
    assert (failed.status, failed.found.count("\n")) == ("failure", 0)
    fine, slow = Finding("disk", "ok", "/tmp"), Finding("a", "warning", "slow", "Wait")
    report = Report((fine, slow))
    assert str(report) == "ok       disk  /tmp\nwarning  a     slow. Wait."
    assert report.ok
    assert not Report((fine, failed)).ok


def test_what_is_no_client_or_an_asynchronous_one_is_refused():
    for given in (3, SimpleNamespace(asynchronous=False)):
        with raises(ArgumentError, "not-a-client"):
            td.doctor(given)

    async def examine():
        async with (
            Scheduler(protocol="inproc", dashboard_address="127.0.0.1:0") as scheduler,
            Client(scheduler.address, asynchronous=True) as client,
        ):
            with raises(ArgumentError, "asynchronous-client"):
                td.doctor(client)

    asyncio.run(examine())


# --- engines ------------------------------------------------------------------------


def test_an_engine_that_is_off_by_one_residue_fails(monkeypatch):
    engine = type(get_engine("cpu"))
    multiply = engine.multiply

    def break_one(*operands, **options):
        residues = multiply(*operands, **options)
        residues[3, 5, 7] ^= 1
        return residues

    monkeypatch.setattr(engine, "multiply", break_one)
    assert statuses(diagnosis.check_engine("cpu")) == {"engine cpu": "failure"}


def test_code_that_numba_cannot_keep_is_told(call, a, b, monkeypatch):
    """Of a user without a home, where the package may not be written to."""

    def refuse(name):
        raise RuntimeError("cannot cache function 'f': no locator available for file")

    monkeypatch.setattr("twom_dist.kernels.registry.import_module", refuse)
    get_engine.cache_clear()
    found = td.doctor().findings[1]
    assert (found.name, found.status) == ("engine cpu", "failure")
    assert "NUMBA_CACHE_DIR" in str(found)
    code, _, err = call("gemm", "A.npy", "B.npy", "-o", "C.npy", "--workers", "0")
    assert (code, "NUMBA_CACHE_DIR" in err) == (2, True)


# --- GPUs ---------------------------------------------------------------------------


def test_a_gpu_that_cannot_be_used_is_told(monkeypatch):
    (found,) = diagnosis.check_gpu(Gpus(reason="CUDA_VISIBLE_DEVICES='' hides all 4"))
    assert (found.status, "hides all 4" in found.found) == ("ok", True)
    monkeypatch.setitem(sys.modules, "cupy", None)
    (found,) = diagnosis.check_gpu(GPUS)
    assert (found.name, found.status) == ("GPU", "warning")


class Block:
    """An array that dask can send only with a package that is missing."""


@dask_serialize.register(Block)
def serialize_block(block):
    raise ImportError("No module named 'numba.cuda'")


def test_blocks_that_cannot_be_sent_name_the_extra():
    (found,) = diagnosis.check_blocks(GPUS, Block())
    assert (found.status, "twom-dist[cuda13]" in found.advice) == ("failure", True)
    assert "numba.cuda" in found.found
    assert statuses(diagnosis.check_blocks(GPUS, np.eye(2))) == {"CuPy blocks": "ok"}


def installed(monkeypatch, **packages):
    """Pretend that these are installed: version, then what each asks for."""

    def find(name):
        if (key := name.replace("-", "_")) not in packages:
            raise PackageNotFoundError(name)
        return packages[key]

    monkeypatch.setattr(diagnosis, "version", lambda name: find(name)[0])
    monkeypatch.setattr(diagnosis, "requires", lambda name: find(name)[1:])
    module = SimpleNamespace(__version__="26.10") if "dask_cuda" in packages else None
    monkeypatch.setitem(sys.modules, "dask_cuda", module)


def test_dask_cuda_with_other_pins_or_without_is_told(monkeypatch):
    packages = {
        "dask_cuda": ("26.10", "rapids-dask-dependency==26.10.*", 'q; extra == "test"'),
        "rapids_dask_dependency": ("26.10.0", "dask==2026.7.1", "missing>=3"),
    }
    installed(monkeypatch, **packages, dask=("2026.7.1",), missing=("3.1",))
    assert statuses(diagnosis.check_dask_cuda(GPUS)) == {"dask-cuda": "ok"}
    installed(monkeypatch, **packages, dask=("2026.8.0",))
    dask, missing = diagnosis.check_dask_cuda(GPUS)
    assert (dask.status, dask.advice) == ("warning", "Run pip install 'dask==2026.7.1'")
    assert missing.advice == "Run pip install 'missing>=3'"
    installed(monkeypatch)
    (found,) = diagnosis.check_dask_cuda(Gpus(GPUS.visible, (12, 8)))
    assert (found.status, "twom-dist[cuda12]" in found.advice) == ("warning", True)
    assert [*diagnosis.check_dask_cuda(Gpus(reason="none"))] == []


# --- workers ------------------------------------------------------------------------


class FakeClient:
    """A client of one worker, which says of itself what it is told to say."""

    scheduler = SimpleNamespace(address="tcp://a:1")

    def __init__(self, packages=None, version=td.__version__, workers=1):
        self.packages = {"twom_dist": version, **(packages or {})}
        self.workers = workers

    def nthreads(self):
        return {"tcp://b:2": 4} if self.workers else {}

    def get_versions(self, check, packages):
        own = {"python": "3.11.9", "dask": "2026.8", "numpy": "2.4", "lz4": None}
        own |= dict.fromkeys(packages, td.__version__)
        place, other = {"packages": own}, {"packages": {**own, **self.packages}}
        return {"client": place, "scheduler": place, "workers": {"tcp://b:2": other}}


@pytest.mark.parametrize(
    ("packages", "version", "expected"),
    [
        ({}, td.__version__, "ok"),
        ({"python": "3.11.2"}, td.__version__, "ok"),
        ({"python": "3.12.9"}, td.__version__, "failure"),
        ({"dask": "9"}, td.__version__, "failure"),
        ({"numpy": "9"}, td.__version__, "warning"),
        ({"numpy": "9", "python": "3.12.1"}, td.__version__, "failure"),
        ({}, "9", "failure"),
        ({}, None, "failure"),
    ],
)
def test_workers_that_differ(packages, version, expected):
    found = list(check_workers(FakeClient(packages, version)))
    assert (found[0].status, found[1].status) == ("ok", expected)
    assert all("tcp://b:2" in x.found for x in found if x.status != "ok")
    none = check_workers(FakeClient(workers=0))
    assert statuses(none) == {"workers": "failure"}


# --- the command --------------------------------------------------------------------


def test_the_command_tells_whether_all_is_in_order(call):
    code, out, err = call("doctor")
    assert (code, err) == (0, "")
    assert {line[:9] for line in out.splitlines()} <= {"ok       ", "warning  "}
    assert "ok       engine cpu" in out
    # A scheduler that does not answer is a failure.
    flags = ("--scheduler", "tcp://127.0.0.1:9", "--timeout", "0.3")
    code, out, err = call("doctor", *flags)
    assert (code, err) == (1, "")
    *_, last = out.splitlines()
    assert last.startswith("failure  workers")
    assert "tcp://127.0.0.1:9" in last
    flags = ("--scheduler", "a", "--scheduler-file", "b")
    call.assert_refuses("doctor", *flags, why="two-schedulers")
