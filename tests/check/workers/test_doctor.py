"""The doctor: its findings about engines, cuBLAS and workers; the command.

Real workers are examined in tests/run/workers/test_local_cluster.py.
"""

from unittest.mock import Mock

import dask
from distributed import Client

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import ArgumentError, KernelError, PlanError
from twom_dist.kernels import registry
from twom_dist.kernels.cpu import fused_gemm, units
from twom_dist.kernels.cpu.products import multiply
from twom_dist.workers import diagnosis
from twom_dist.workers.diagnosis import Finding, Report


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


def test_a_setting_that_cannot_be_used_is_told_before_any_work():
    settings = dask.config.get("twom-dist")
    assert statuses(diagnosis.run("settings", diagnosis.check_settings)) == {}
    for name in settings:
        with dask.config.set({f"twom-dist.{name}": {"abc": 1}}):
            found = diagnosis.run("settings", diagnosis.check_settings)
            assert statuses(found) == {"settings": "failure"}, name
            for ask in (td.plan, td.explain):
                with raises(PlanError, "setting") as caught:
                    ask(td.herk, (9, 9))
                assert f"twom-dist.{name} is" in caught.value.problem


def test_an_engine_that_is_off_by_one_residue_fails(monkeypatch):
    multiply = fused_gemm.multiply_planes

    def break_one(left, right, system, residues, *given):
        multiply(left, right, system, residues, *given)
        residues[3, 0, 5, 7] ^= 1

    monkeypatch.setattr(fused_gemm, "multiply_planes", break_one)
    assert statuses(diagnosis.check_engine("cpu")) == {"engine cpu": "failure"}


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


@cases(
    ("python", "profiled", "expected"),
    [
        *(((3, 11, 9), True, {"workers": "warning"}), ((3, 12, 0), True, {})),
        ((3, 11, 9), False, {}),
    ],
)
def test_a_profiler_that_may_stop_workers_is_told(python, profiled, expected):
    client = Mock(**{"run.return_value": {"a": False, "b": profiled}})
    assert statuses(diagnosis.check_profilers(client, python)) == expected


@cases(
    ("machine", "told"),
    [
        ("x86_64", "vectors (no VNNI:"),
        ("aarch64", "vectors (whose speed on"),
    ],
)
def test_of_vnni_owners_of_x86_alone_are_told(machine, told, monkeypatch):
    monkeypatch.setattr(diagnosis, "machine", lambda: machine)
    monkeypatch.setattr(units, "count_lanes", lambda: 0)
    monkeypatch.setattr(multiply, "count_lanes", lambda: 0)
    monkeypatch.setattr(multiply, "select_tiles", lambda: None)
    (found,) = diagnosis.name_versions()
    assert told in found.found
    assert ("VNNI" in found.found) == (machine == "x86_64")


def test_each_check_says_how_numba_gets_a_folder(monkeypatch):
    error = RuntimeError("cannot cache function: no locator available")
    monkeypatch.setattr(registry, "import_module", Mock(side_effect=error))
    for check in (diagnosis.name_versions, diagnosis.check_amx, diagnosis.check_gpu):
        (found,) = diagnosis.run("any", check)
        assert "NUMBA_CACHE_DIR" in found.advice


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
