"""The scripts with stand-ins for PBS, LSF and GPUs; dask and twom-dist are real."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from distributed import Security

import twom_dist as td
from tests.support.batch import parts_of_c, processes_of
from tests.support.command import contents, read, same_bits
from tests.support.jobs import wait_until
from tests.support.places import CLUSTER, STAND_INS

pytestmark = pytest.mark.timeout(180)
HERK = ("herk", "A.zarr", "-o", "C.zarr")
# Not what they are about, and what starts fastest.
PLAIN = ("--tile", "32", "--engine", "reference", "--num-moduli", "16")
SLOTS = "localhost\nlocalhost\n127.0.0.1\n"


def start(script, *arguments):
    """Start a script in a group of its own."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    pipes |= {"stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [CLUSTER / script, *arguments], start_new_session=True, **pipes
    )


def run(script, *arguments):
    """Return exit status, stdout and stderr."""
    process = start(script, *arguments)
    out, err = process.communicate(timeout=150)
    return process.returncode, out, err


def log(name):
    """Read a log of the only job of this folder."""
    (path,) = Path("twom-logs").glob(f"*/{name}.log")
    return path.read_text()


def links_in(folder, *names):
    """Fill a folder with links to a file, which is returned."""
    target = Path("precious").resolve()
    target.write_text("as it was")
    Path(folder).mkdir(parents=True)
    for name in names:
        Path(folder, name).symlink_to(target)
    return target


def assert_encrypted():
    assert "Scheduler at:     tls://127.0.0.1:" in log("scheduler")
    assert "tcp://" not in log("scheduler") + log("worker-localhost")


@pytest.fixture
def pbs(folder, monkeypatch):
    """What PBS tells a job on two hosts, the first with two slots."""
    Path("nodes").write_text(SLOTS)
    monkeypatch.setenv("PBS_JOBID", "12.server")
    monkeypatch.setenv("PBS_NODEFILE", str(folder / "nodes"))
    monkeypatch.setenv("PBS_O_WORKDIR", str(folder))


def test_the_scripts_are_clean():
    # Not a Python package; CI installs it.
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is missing: apt-get install shellcheck")
    scripts = [*CLUSTER.glob("*.sh"), *CLUSTER.glob("*.sbatch")]
    stand_ins = [STAND_INS / name for name in ("pbsdsh", "blaunch", "gpu/nvidia-smi")]
    assert len(scripts) == 7
    command = ["shellcheck", "-x", *scripts, *stand_ins]
    done = subprocess.run(command, cwd=CLUSTER.parent, capture_output=True, text=True)
    assert done.stdout == ""


def test_one_machine_with_gpus(folder, monkeypatch):
    gpu = str(STAND_INS / "gpu")
    for name in ("PYTHONPATH", "PATH"):
        monkeypatch.setenv(name, gpu, prepend=os.pathsep)
    # UCX is there, and is not taken unless it is asked for.
    options = ("--pool-size=0", "--interface", "lo")
    code, out, err = run("local_cuda.sh", *options, *HERK, *PLAIN)
    assert (code, err) == (0, "")
    assert out.startswith(f"{folder}/C.zarr: herk, 60 x 60 complex128")
    assert same_bits(read("C.zarr"), td.herk(read("A.zarr")))
    record = json.loads(Path("localhost.json").read_text())
    assert (record["devices"], record["protocol"]) == (["0", "1"], "tls")
    assert (record["pool"], record["libs"]) == (None, None)
    assert "name: localhost:2-1" in log("scheduler")
    assert "tcp://" not in log("scheduler") + log("worker-localhost")


@pytest.mark.nightly
def test_pbs_with_tls(pbs):
    own = Security.temporary()
    Path("key.pem").write_text(own.tls_client_key)
    Path("key.pem").chmod(0o600)
    for name in ("ca", "cert"):
        Path(f"{name}.pem").write_text(own.tls_client_cert)
    files = ("--tls-ca-file=ca.pem", "--tls-cert=cert.pem", "--tls-key", "key.pem")
    command = ("gemm", "A.zarr", "B.zarr", "-o", "C.zarr", *PLAIN)
    code, _, err = run("pbs.sh", *files, "--workers=1", *command)
    assert (code, err) == (0, "")
    assert same_bits(read("C.zarr"), td.gemm(read("A.zarr"), read("B.zarr")))
    # One task a host, by the number of its first slot.
    launched = sorted(Path("launched.txt").read_text().splitlines())
    assert launched == ["0 localhost", "2 127.0.0.1"]
    assert_encrypted()


@pytest.mark.nightly
def test_lsf(folder, monkeypatch):
    names = ("settings.sh", "scheduler.log", "launch.log", "tls.pem")
    precious = links_in("twom-logs/mine", *names, "worker-localhost.log")
    Path("nodes").write_text(SLOTS)
    monkeypatch.setenv("LSB_JOBID", "12")
    monkeypatch.setenv("LSB_DJOB_HOSTFILE", "nodes")
    code, _, err = run("lsf.sh", "--logs", "twom-logs/mine", *HERK, *PLAIN)
    assert (code, err) == (0, "")
    assert same_bits(read("C.zarr"), td.herk(read("A.zarr")))
    launched = sorted(Path("launched.txt").read_text().split())
    assert launched == ["127.0.0.1", "localhost"]
    assert_encrypted()
    # A worker for each slot.
    for name in ("localhost:2-0", "localhost:2-1", "127.0.0.1:1"):
        assert f"name: {name}" in log("scheduler")
    # Whoever can write to the folder of logs reaches no other file.
    assert precious.read_text() == "as it was"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("script", "lost", "number", "code", "sentence"),
    [
        # As a terminal does it, and as qdel does: to all processes of the job.
        ("local_cuda.sh", None, signal.SIGINT, 143, "ended from outside"),
        ("pbs.sh", None, signal.SIGTERM, 143, "ended from outside"),
        ("local_cuda.sh", "dask scheduler", signal.SIGKILL, 1, "error: the scheduler"),
        ("local_cuda.sh", "dask worker", signal.SIGKILL, 1, "error: the workers of"),
    ],
)
def test_a_job_that_is_ended_or_loses_its_cluster_leaves_nothing(
    pbs, folder, long_product, script, lost, number, code, sentence
):
    process = start(script, "--workers", "1", "--interface", "lo", *long_product)
    wait_until(parts_of_c)
    (credentials,) = Path("twom-logs").glob("*/tls.pem")
    assert credentials.stat().st_mode & 0o777 == 0o600
    if lost is None:
        os.killpg(process.pid, number)
    else:
        processes_of(folder, lost)[0].send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"{script}: {sentence}" in err
    assert lost or "twom-dist: error: terminated" in err
    assert lost or "Traceback" not in err
    assert not Path("C.zarr").exists()


@pytest.mark.nightly
def test_a_script_that_is_killed_leaves_no_process(folder, long_product):
    process = start("local_cuda.sh", "--protocol", "tcp", *long_product)
    wait_until(parts_of_c)
    process.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not processes_of(folder))
    assert "Scheduler at:     tcp://127.0.0.1:" in log("scheduler")
    assert not list(Path("twom-logs").glob("*/tls.pem"))
    # Nobody is left to remove these.
    for left in (Path("twom-logs"), *(folder.parent / "scratch").iterdir()):
        shutil.rmtree(left)


@pytest.mark.parametrize("below", [".", "my scripts"])
def test_a_copy_of_the_pbs_script_finds_the_others(folder, monkeypatch, below):
    shutil.copytree(CLUSTER, "my scripts")
    spool = shutil.copy(CLUSTER / "pbs.sh", folder / "12.SC")
    monkeypatch.setenv("PBS_O_WORKDIR", str(folder / below))
    code, out, err = run(spool, "--help")
    assert (code, err) == (0, "")
    assert out.startswith("pbs.sh [OPTION VALUE]...")


REFUSALS = [
    ((), "no command given, such as: herk"),
    (("--fast", "1", *HERK), "--fast does not exist; see --help"),
    (("--wait",), "--wait takes a value; see --help"),
    (("--wait", "0", *HERK), "--wait 0 given"),
    (("--device", "tpu", *HERK), "--device tpu given"),
    (("--device", "gpu", *HERK), "--device gpu given, and there is no GPU"),
    (("--dashboard", ":8787", *HERK), "--dashboard :8787 given"),
    (("--venv", "none", *HERK), "'none/bin/twom-dist' is not a program"),
    (("info",), "twom-dist info needs no workers"),
    (("--tls-cert", "A.zarr", *HERK), "--tls-ca-file and --tls-cert belong together"),
    (("--tls-ca-file", "x", "--tls-cert", "x", *HERK), "the TLS file '.*/x'"),
    (("--logs", "file", *HERK), "cannot write to '.*/file'"),
    (("--scratch", "none", *HERK), "cannot write to the scratch folder"),
]


def test_what_cannot_be_is_refused_before_anything_starts(folder, monkeypatch):
    Path("file").touch()
    before = contents(folder)
    for arguments, sentence in REFUSALS:
        code, out, err = run("local_cuda.sh", *arguments)
        assert (code, out) == (2, ""), arguments
        assert re.match(f"local_cuda.sh: error: {sentence}", err), err
        assert err.count("\n") == 1
        left = contents(folder)
        left = {name: left[name] for name in left if not name.startswith("twom-logs")}
        assert left == before
    for script in ("slurm.sbatch", "pbs.sh", "lsf.sh"):
        code, out, err = run(script, *HERK)
        assert (code, out) == (2, "")
        assert err.startswith(f"{script}: error: this is not a batch job, ")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("mute", "options", "sentence"),
    [
        ("scheduler", ("--wait", "1"), "no scheduler file after 1 s; see /.*"),
        # The scheduler has as long to come.
        ("worker", ("--wait", "10"), "of the workers, those of 0 of 1 nodes.*"),
        ("", ("--interface", "no0"), "the scheduler did not start .*'no0'.*; see /.*"),
        ("", ("--memory-limit", "much"), r"the workers of localhost ended \(.*\).*"),
    ],
)
def test_a_cluster_that_never_comes(folder, monkeypatch, mute, options, sentence):
    dask = folder / "bin" / "dask"
    dask.parent.mkdir()
    real = shutil.which("dask")
    mute = f'#!/bin/bash\n[ "$1" != "{mute}" ] || exec sleep 50\nexec "{real}" "$@"\n'
    dask.write_text(mute)
    dask.chmod(0o755)
    monkeypatch.setenv("PATH", f"{dask.parent}:{os.environ['PATH']}")
    # Without credentials, which take a second.
    code, out, err = run("local_cuda.sh", "--protocol", "tcp", *options, *HERK)
    assert (code, out) == (1, "")
    assert re.fullmatch(f"local_cuda.sh: error: {sentence}\n", err), err
    assert not Path("C.zarr").exists()


def test_help_and_the_readme_list_the_same_options(folder):
    code, out, err = run("local_cuda.sh", "--help")
    assert (code, err) == (0, "")
    table = (CLUSTER / "README.md").read_text()
    options = re.findall(r"^  (--[a-z-]+)", out, re.MULTILINE)
    assert len(options) == 16
    assert re.findall(r"^\| `(--[a-z-]+)", table, re.MULTILINE) == options
