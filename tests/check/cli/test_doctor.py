"""The doctor: its findings about engines, GPUs, dask-cuda and workers; the command.

What is broken is a stand-in. What is in order is real; real workers are examined in
tests/run/workers/test_local_cluster.py and tests/nightly/versions.
"""

import sys
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
from distributed import Client

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.cluster import Finding, Report, diagnosis
from twom_dist.cluster.nvml import Gpu, Gpus
from twom_dist.errors import ArgumentError, KernelError
from twom_dist.kernels import get_engine

GPUS = Gpus((Gpu("NVIDIA H200", 140 << 30, 130 << 30),), (13, 0))


def statuses(findings):
    """Names and statuses; what is not right says what to do, and nothing else does."""
    findings = list(findings)
    assert all((x.status == "ok") != bool(x.advice) for x in findings), findings
    return {x.name: x.status for x in findings}


@cases("error", [KernelError("no", "Wait", "x"), RuntimeError("a\nb")])
def test_whatever_stops_a_check_is_a_line_of_the_report(error):
    (failed,) = diagnosis.run("GPU", Mock(side_effect=error))
    assert (failed.status, failed.found.count("\n")) == ("failure", 0)
    fine, slow = Finding("disk", "ok", "/tmp"), Finding("a", "warning", "slow", "Wait")
    assert Report((fine, slow)).ok
    report = Report((fine, slow, failed))
    assert (report.ok, str(report).count("\n")) == (False, 2)


def test_what_is_no_client_or_an_asynchronous_one_is_refused():
    with raises(ArgumentError, "not-a-client"):
        td.doctor(3)
    with raises(ArgumentError, "asynchronous-client"):
        td.doctor(Mock(spec=Client, asynchronous=True))


def test_an_engine_that_is_off_by_one_residue_fails(monkeypatch):
    from twom_dist.kernels.cpu import at_once

    multiply = at_once.multiply_planes

    def break_one(left, right, system, residues, *given):
        multiply(left, right, system, residues, *given)
        residues[3, 0, 5, 7] ^= 1

    monkeypatch.setattr(at_once, "multiply_planes", break_one)
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
    code, _, err = call("gemm", "A.npy", "B.npy", "-o", "C.npy", "--n-workers", "0")
    assert (code, "NUMBA_CACHE_DIR" in err) == (2, True)


def test_a_gpu_that_cannot_be_used_is_told(monkeypatch):
    (found,) = diagnosis.check_gpu(Gpus(reason="CUDA_VISIBLE_DEVICES='' hides all 4"))
    assert (found.status, "hides all 4" in found.found) == ("ok", True)
    monkeypatch.setitem(sys.modules, "cupy", None)
    (found,) = diagnosis.check_gpu(GPUS)
    assert (found.name, found.status) == ("GPU", "warning")


@cases(
    ("version", "capability", "status"),
    [
        *((130000, 90, "warning"), (130000, 103, "warning"), (130002, 90, "ok")),
        *((130700, 100, "warning"), (131000, 100, "ok"), (131000, 103, "ok")),
        *((120805, 103, "warning"), (120805, 120, "ok"), (11402, 80, "ok")),
    ],
)
def test_releases_of_cublas_that_may_be_wrong_are_told(version, capability, status):
    cuda = Mock(**{"cublas.getVersion.return_value": version})
    assert statuses(diagnosis.check_cublas(cuda, capability)) == {"cuBLAS": status}


def test_blocks_that_cannot_be_sent_are_told():
    (found,) = diagnosis.run("CuPy blocks", diagnosis.check_blocks, object())
    assert (found.status, "TypeError" in found.found) == ("failure", True)
    assert statuses(diagnosis.check_blocks(np.eye(2))) == {"CuPy blocks": "ok"}


PINS = {
    "dask-cuda": ["rapids-dask-dependency==26.10.*", 'q; extra == "test"'],
    "rapids-dask-dependency": ["dask==2026.7.1", "missing>=3"],
}


def test_dask_cuda_with_other_pins_or_without_is_told(monkeypatch):
    installed = {"rapids-dask-dependency": "26.10.0", "dask": "2026.7.1"}

    def find(name):
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(diagnosis, "version", find)
    monkeypatch.setattr(diagnosis, "requires", PINS.get)
    monkeypatch.setitem(sys.modules, "dask_cuda", SimpleNamespace(__version__="26.10"))
    (missing,) = diagnosis.check_dask_cuda(GPUS)
    assert missing.advice == "Run pip install 'missing>=3'"
    installed |= {"dask": "2026.8.0", "missing": "3.1"}
    (dask,) = diagnosis.check_dask_cuda(GPUS)
    assert (dask.status, dask.advice) == ("warning", "Run pip install 'dask==2026.7.1'")
    installed["dask"] = "2026.7.1"
    assert statuses(diagnosis.check_dask_cuda(GPUS)) == {"dask-cuda": "ok"}
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    (found,) = diagnosis.check_dask_cuda(GPUS)
    assert found.status == "warning"
    assert "pip install '.[cuda12]'" in found.advice
    assert [*diagnosis.check_dask_cuda(Gpus(reason="none"))] == []


@cases(
    ("packages", "expected"),
    [
        ({}, "ok"),
        ({"python": "3.11.2"}, "ok"),
        ({"python": "3.12.9"}, "failure"),
        ({"dask": "9"}, "failure"),
        ({"numpy": "9"}, "warning"),
        ({"numpy": "9", "python": "3.12.1"}, "failure"),
        ({"twom_dist": "9"}, "failure"),
        ({"twom_dist": None}, "failure"),
    ],
)
def test_workers_that_differ(packages, expected):
    own = {"python": "3.11.9", "dask": "2026.8", "numpy": "2.4", "lz4": None}
    own["twom_dist"] = td.__version__
    here, there = {"packages": own}, {"tcp://b:2": {"packages": own | packages}}
    versions = {"client": here, "scheduler": here, "workers": there}
    client = SimpleNamespace(get_versions=lambda **_: versions)
    found = diagnosis.compare_processes(client)
    assert found[0].status == expected
    assert all("tcp://b:2" in x.found for x in found if x.status != "ok")


def test_a_scheduler_without_workers_is_a_failure():
    scheduler = SimpleNamespace(address="tcp://a:1")
    client = SimpleNamespace(scheduler=scheduler, nthreads=dict)
    assert statuses(diagnosis.check_workers(client)) == {"workers": "failure"}


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


def test_what_would_multiply_faster_is_named(monkeypatch):
    from twom_dist.kernels.cpu import units
    from twom_dist.kernels.cpu.products import int8_gemm

    for has_bytes, has_vnni, installed, said, advice in (
        (False, False, False, "(no VNNI: ", ""),
        (True, True, True, "", ""),
        (True, True, False, "", ""),
        # As on Arm.
        (True, False, False, "(speeds were never measured", "for faster products"),
    ):
        monkeypatch.setattr(units, "has_vnni", lambda x=has_vnni: x)
        monkeypatch.setattr(int8_gemm, "multiplies_bytes", lambda x=has_bytes: x)
        monkeypatch.setattr(int8_gemm, "has_onnx_runtime", lambda x=installed: x)
        (finding,) = diagnosis.name_versions()
        assert finding.status == "ok"
        assert ("(" in finding.found) == bool(said)
        assert said in finding.found
        assert finding.advice == (advice and f"Run pip install onnxruntime {advice}")
