"""Jobs of PBS and LSF, and jobs that end early: with stand-ins for schedulers."""

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from distributed import Security

import twom_dist as td
from tests.support import batch
from tests.support.command import read
from tests.support.expect import same_bits
from tests.support.jobs import wait_until


def test_pbs_with_tls(pbs):
    own = Security.temporary()
    Path("key.pem").write_text(own.tls_client_key)
    Path("key.pem").chmod(0o600)
    for name in ("ca", "cert"):
        Path(f"{name}.pem").write_text(own.tls_client_cert)
    files = ("--tls-ca-file=ca.pem", "--tls-cert=cert.pem", "--tls-key", "key.pem")
    command = ("gemm", "A.zarr", "B.zarr", "-o", "C.zarr", *batch.PLAIN)
    code, _, err = batch.run("pbs.sh", *files, "--workers=1", *command)
    assert code == 0
    assert re.fullmatch(r"twom-dist: begins on .+\n(twom-dist: \d+ of .+\n)*", err)
    assert same_bits(read("C.zarr"), td.gemm(read("A.zarr"), read("B.zarr")))
    # One task a host, by the number of its first slot.
    launched = sorted(Path("launched.txt").read_text().splitlines())
    assert launched == ["0 localhost", "2 127.0.0.1"]
    assert "Scheduler at:     tls://127.0.0.1:" in batch.log("scheduler")
    assert "tcp://" not in batch.log("scheduler") + batch.log("worker-localhost")


def test_lsf(folder, monkeypatch):
    names = ("settings.sh", "scheduler.log", "launch.log", "tls.pem")
    precious, logs = Path("precious").resolve(), Path("twom-logs/mine")
    precious.write_text("as it was")
    logs.mkdir(parents=True)
    for name in (*names, "worker-localhost.log"):
        (logs / name).symlink_to(precious)
    Path("nodes").write_text(batch.SLOTS)
    monkeypatch.setenv("LSB_JOBID", "12")
    monkeypatch.setenv("LSB_DJOB_HOSTFILE", "nodes")
    code, _, err = batch.run(
        "lsf.sh", "--logs", "twom-logs/mine", *batch.HERK, *batch.PLAIN
    )
    assert code == 0
    assert re.fullmatch(r"twom-dist: begins on .+\n(twom-dist: \d+ of .+\n)*", err)
    assert same_bits(read("C.zarr"), td.herk(read("A.zarr")))
    launched = sorted(Path("launched.txt").read_text().split())
    assert launched == ["127.0.0.1", "localhost"]
    assert "Scheduler at:     tls://127.0.0.1:" in batch.log("scheduler")
    assert "tcp://" not in batch.log("scheduler") + batch.log("worker-localhost")
    # A worker for each slot.
    for name in ("localhost:2-0", "localhost:2-1", "127.0.0.1:1"):
        assert f"name: {name}" in batch.log("scheduler")
    # Whoever can write to the folder of logs reaches no other file.
    assert precious.read_text() == "as it was"


@pytest.mark.parametrize(
    ("script", "lost", "number", "code", "sentence"),
    [
        # As qdel does it: to all processes of the job.
        ("pbs.sh", None, signal.SIGTERM, 143, "stopped by a signal"),
        ("local_cuda.sh", "dask scheduler", signal.SIGKILL, 1, "error: the scheduler"),
        ("local_cuda.sh", "dask worker", signal.SIGKILL, 1, "error: the workers of"),
    ],
)
def test_a_job_that_is_ended_or_loses_its_cluster_leaves_nothing(
    pbs, folder, long_product, script, lost, number, code, sentence
):
    process = batch.start(script, "--workers", "1", "--interface", "lo", *long_product)
    wait_until(batch.parts_of_c)
    (credentials,) = Path("twom-logs").glob("*/tls.pem")
    assert credentials.stat().st_mode & 0o777 == 0o600
    if lost is None:
        os.killpg(process.pid, number)
    else:
        batch.processes_of(folder, lost)[0].send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"{script}: {sentence}" in err
    assert lost or "twom-dist: error: terminated" in err
    assert lost or "Traceback" not in err
    assert not Path("C.zarr").exists()


def test_a_script_that_is_killed_leaves_no_process(folder, long_product):
    process = batch.start("local_cuda.sh", "--protocol", "tcp", *long_product)
    wait_until(batch.parts_of_c)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not batch.processes_of(folder))
    assert "Scheduler at:     tcp://127.0.0.1:" in batch.log("scheduler")
    assert not list(Path("twom-logs").glob("*/tls.pem"))
    # Nobody is left to remove these.
    for left in (Path("twom-logs"), *(folder.parent / "scratch").iterdir()):
        shutil.rmtree(left)
