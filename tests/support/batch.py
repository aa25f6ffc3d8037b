"""A folder to submit from, and what the scripts find on PATH."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support.command import make, save
from tests.support.jobs import open_ports, wait_until
from tests.support.places import CLUSTER, STAND_INS
from tests.support.slurm import running_slurm, why_not

HERK = ("herk", "A.zarr", "-o", "C.zarr")
# Not what they are about, and what starts fastest.
PLAIN = ("--chunks", "32", "--engine", "reference", "--num-moduli", "16")
SLOTS = "localhost\nlocalhost\n127.0.0.1\n"
BATCH = ("DASK_", "SLURM_", "PBS_", "LSB_")


@pytest.fixture(scope="session")
def slurm():
    # Root and Slurm's daemons, which not every machine has; CI has both.
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with running_slurm() as started:
        yield started


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a folder with matrices; afterwards, nothing of a job is left anywhere."""
    home, scratch, path = tmp_path / "home", tmp_path / "scratch", tmp_path / "a b"
    for each in (home, scratch, path):
        each.mkdir()
    monkeypatch.chdir(path)
    for name in [name for name in os.environ if name.startswith(BATCH)]:
        monkeypatch.delenv(name)
    bins = [str(STAND_INS), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(bins))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    save("A.zarr", make(60, 40, 1))
    save("B.zarr", make(40, 50, 2))
    yield path
    # Bash takes a moment to end after its last word.
    try:
        wait_until(lambda: not processes_of(path), 60)
    finally:
        for process in processes_of(path):
            process.kill()
    assert not [*scratch.glob("twom-*"), *scratch.glob("dask-*")]
    for name in ("scheduler.json", "settings.sh", "tls.pem"):
        assert not list(path.rglob(name))


@pytest.fixture
def long_product(folder, monkeypatch):
    """Make a product that takes a minute, most of it asleep: its command."""
    preload = str(STAND_INS / "slow_tasks.py")
    monkeypatch.setenv("DASK_DISTRIBUTED__WORKER__PRELOAD", preload)
    save("long.npy", make(240, 16, 3))
    slow = ("--op-b", "T", "--engine", "reference", "--chunks", "16")
    # Not looked at first, which would take longer than the tests wait.
    given = ("--num-moduli", "16")
    return ("gemm", "long.npy", "long.npy", "-o", "C.zarr", *slow, *given)


def parts_of_c():
    return list(Path().glob(".C.zarr.unfinished/*/c/*/*"))


def processes_of(folder, command=""):
    """Find the processes of a job: they were told of its folder, or work in it.

    `command`: part of their command lines.
    """
    found = []
    for process in psutil.process_iter():
        try:
            words, place = process.cmdline(), process.cwd()
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        line = " ".join(words)
        if process.pid != os.getpid() and str(folder) in line + place:
            found += [process] * (command in line)
    return found


def listening_addresses(folder):
    found = set()
    for process in processes_of(folder):
        with suppress(psutil.NoSuchProcess):  # it may have ended by now
            if "python" in process.name():
                found.add(process.pid)
    return {port.ip for port in open_ports(found)}


@pytest.fixture
def pbs(folder, monkeypatch):
    """What PBS tells a job on two hosts, the first with two slots."""
    Path("nodes").write_text(SLOTS)
    monkeypatch.setenv("PBS_JOBID", "12.server")
    monkeypatch.setenv("PBS_NODEFILE", str(folder / "nodes"))
    monkeypatch.setenv("PBS_O_WORKDIR", str(folder))


def start(script, *arguments):
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    pipes |= {"stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [CLUSTER / script, *arguments], start_new_session=True, **pipes
    )


def run(script, *arguments):
    process = start(script, *arguments)
    out, err = process.communicate(timeout=150)
    return process.returncode, out, err


def log(name):
    (path,) = Path("twom-logs").glob(f"*/{name}.log")
    return path.read_text()
