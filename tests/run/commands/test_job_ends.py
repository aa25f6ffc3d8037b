"""How a job of local_cuda.sh ends, with stand-ins that do nothing, at once.

Those in tests/nightly/batch have the same with real ones.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from dask.config import collect_env, get
from distributed.http.utils import get_handlers

from tests.support.command import contents
from tests.support.jobs import wait_until
from tests.support.places import CLUSTER, STAND_INS

HERK = ("herk", "A", "-o", "C")


def start(*options, **variables):
    """Start a job that encrypts nothing."""
    command = [CLUSTER / "local_cuda.sh", "--protocol=tcp", "--device=cpu", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, **variables}
    return subprocess.Popen(
        [*command, *HERK], env=environment, start_new_session=True, **pipes
    )


def end_of(process):
    """Return exit status and stderr; nothing of the job is left but its logs."""
    _, err = process.communicate(timeout=30)
    logs = {Path(name).name for name in contents(Path("twom-logs"))}
    job = f"local-{process.pid}"
    assert logs <= {job, "scheduler.log", "launch.log", "worker-localhost.log"}
    # That of the workers is removed by their script, which may end a moment later.
    wait_until(lambda: not list(Path("scratch").iterdir()), 20)
    return process.returncode, err


@pytest.fixture(autouse=True)
def idle(here, monkeypatch):
    """Make a folder with the stand-ins."""
    for name in ("bin", "scratch"):
        Path(name).mkdir()
    for name in ("dask", "python3", "twom-dist"):
        shutil.copy(STAND_INS / "idle", here / "bin" / name)
    monkeypatch.setenv("PATH", str(here / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("TMPDIR", str(here / "scratch"))


def test_a_job_ends_as_its_command_does():
    assert end_of(start(TWOM_DIST="exit 3")) == (3, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_job_that_is_told_to_end_ends_its_command_first(number):
    # With another status where the scheduler has gone before it.
    end = 'kill -0 "$(<scheduler)" && exit 143'
    command = f"trap '{end}' TERM; touch running; while :; do sleep 0.1; done"
    process = start(SCHEDULER="echo $$ >scheduler", TWOM_DIST=command)
    wait_until(Path("running").exists, 20)
    os.kill(process.pid, number)
    code, err = end_of(process)
    why = (
        "the time limit is near" if number == signal.SIGUSR1 else "stopped by a signal"
    )
    assert (code, err) == (143, f"local_cuda.sh: {why}\n")


@pytest.mark.parametrize(
    ("acts", "sentence"),
    [
        ({"SCHEDULER": "exec sleep 60"}, "no scheduler file after 1 s"),
        ({"SCHEDULER": "echo no luck; exit"}, r"the scheduler did not .*\(no luck\)"),
        ({"SCHEDULER": "(sleep 0.6; kill $$) &"}, r"the scheduler ended \(.*\)"),
        ({"WORKER": "echo no luck; exit"}, r"the workers of .* ended \(no luck\)"),
    ],
)
def test_a_job_without_a_cluster_ends(acts, sentence):
    wait = "1" if "no scheduler file" in sentence else "60"
    code, err = end_of(start("--wait", wait, TWOM_DIST="exec sleep 60", **acts))
    assert code == 1
    assert re.fullmatch(f"local_cuda.sh: error: {sentence}; see /.*\n", err), err


@pytest.mark.parametrize("dashboard", [False, True])
def test_only_a_dashboard_serves_pages_that_tell_of_the_job(dashboard):
    options = ("--dashboard", "127.0.0.1:0") * dashboard
    log = "$(echo twom-logs/*/worker-localhost.log)"  # a pattern until there is one
    wait = f"until [[ -s {log} ]]; do sleep 0.01; done"
    assert end_of(start(*options, TWOM_DIST=wait)) == (0, "")
    for process in ("scheduler", "worker-localhost"):
        (log,) = Path("twom-logs").glob(f"*/{process}.log")
        lines = dict(line.split("=", 1) for line in log.read_text().splitlines())
        set_up = collect_env(env=lines)
        for kind in ("scheduler", "worker"):
            routes = get(f"distributed.{kind}.http.routes", None, config=set_up)
            if dashboard and kind == "scheduler":
                assert routes is None
            else:
                assert [path for path, *_ in get_handlers(None, routes)] == ["/health"]
