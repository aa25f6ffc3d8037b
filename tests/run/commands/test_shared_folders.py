"""Jobs and clusters in folders that others can write to, and how the scripts end.

For jobs dask, python3 and twom-dist are stand-ins that start at once and do nothing.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from dask.config import collect_env, get
from distributed.http.utils import get_handlers

from tests.support.cases import cases
from tests.support.command import ENVIRONMENT
from tests.support.jobs import wait_until
from tests.support.places import CLUSTER, STAND_INS

OWNER, OTHER = 65532, 65533
TLS = "DASK_DISTRIBUTED__COMM__TLS"
# Of LSF: says that workers are about to start, and waits until a test has acted.
BLAUNCH = """#!/bin/bash
touch launching
until [[ -e acted ]]; do sleep 0.01; done
exec "${@:3}"
"""


def bash(script, *arguments, cwd=None):
    """Run lines of bash with the functions of the scripts; return the output."""
    lines = f'source "{CLUSTER}/common.sh"\n{script}'
    command = ["bash", "-uc", lines, "test", *map(str, arguments)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {"cwd": cwd, "env": os.environ | {"PATH": path}, "text": True}
    return subprocess.check_output(command, **given).strip()


def trust(path, bits=22):
    """Say what is wrong with a file or a folder; nothing if it can be trusted."""
    return bash('hold "$1" "$2" || echo "$flaw"', path, bits)


@dataclass
class Shared:
    """A folder in which everybody may make files, and who runs jobs there."""

    folder: Path
    user: dict[str, object]

    def start(self, *options, script="lsf.sh", **variables):
        path = f"{self.folder}/bin:/usr/bin:/bin"
        batch = {"LSB_JOBID": "12", "LSB_DJOB_HOSTFILE": "nodes"}
        batch |= {"TMPDIR": f"{self.folder}/scratch", "PATH": path}
        command = [self.folder / "cluster" / script, "--protocol", "tcp", *options]
        return subprocess.Popen(
            [*command, "herk", "A", "-o", "C"],
            cwd=self.folder,
            env=batch | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **self.user,
        )

    def run(self, *options, **given):
        return self.end(self.start(*options, **given))

    def end(self, process):
        """Return exit status and stderr; nothing is left of the job but its logs."""
        _, err = process.communicate()
        # That of the workers is removed by their script, which may end a moment later.
        wait_until(lambda: not [*(self.folder / "scratch").iterdir()])
        return process.returncode, err

    def plant(self, path):
        """Put a folder of another user there; where nobody is another, an open one."""
        path.mkdir(parents=True)
        path.chmod(0o755 if self.user else 0o777)
        (path / "settings.sh").write_text(f"id -u >{self.folder}/ran; exit\n")
        for each in (path.parent, path, path / "settings.sh"):
            os.chown(each, OTHER if self.user else -1, -1)


@pytest.fixture
def shared():
    """Make such a folder, on whose path there is none of this user's alone."""
    # Nobody but root can act as others.
    user = {"user": OWNER, "group": OWNER, "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="shared-", dir="/tmp"))
    try:
        shutil.copytree(CLUSTER, folder / "cluster")
        for name in ("bin", "scratch"):
            (folder / name).mkdir()
        for name in ("dask", "python3", "twom-dist"):
            shutil.copy(STAND_INS / "idle", folder / "bin" / name)
        (folder / "bin" / "blaunch").write_text(BLAUNCH)
        (folder / "bin" / "blaunch").chmod(0o755)
        (folder / "nodes").write_text("localhost\n")
        for each in (folder, folder / "scratch"):
            each.chmod(0o1777)
        yield Shared(folder, user if os.geteuid() == 0 else {})
    finally:
        shutil.rmtree(folder)


@cases(
    ("above", "mode", "flaw"),
    [
        (0o755, 0o700, ""),
        # One that a group shares, and /tmp.
        (0o2775, 0o755, ""),
        (0o1777, 0o755, ""),
        (0o755, 0o775, "is open to others.*"),
        (0o755, 0o757, "is open to others.*"),
        (0o777, 0o700, "is below '.*/above'.*"),
    ],
)
def test_what_others_may_change_is_not_trusted(tmp_path, above, mode, flaw):
    folder = tmp_path / f"{above}{mode}" / "above" / "a b"
    file, link = folder / "file", folder.with_name("link")
    folder.mkdir(parents=True)
    file.touch(0o600)
    link.symlink_to(folder)
    folder.parent.chmod(above)
    folder.chmod(mode)
    assert re.fullmatch(flaw, trust(folder))
    assert trust(link) == "is a link"
    file.chmod(mode)
    assert re.fullmatch(flaw, trust(file))
    # Nor is a pipe waited for.
    os.mkfifo(folder / "pipe")
    for name in ("pipe", "none"):
        assert trust(folder / name) == "cannot be read"
    # Only root may hand files over.
    if os.geteuid() == 0:
        os.chown(file, OTHER, OTHER)
        assert trust(file) == "belongs to another user"


@cases("mask", [0o000, 0o002, 0o022])
def test_a_job_makes_a_folder_of_its_own_below_one_that_a_group_may_share(
    tmp_path, mask
):
    place = tmp_path / str(mask)
    place.mkdir()
    # Modules in the current folder are not imported.
    (place / "socket.py").write_text("raise SystemExit('imported')")
    assert bash("address_towards 127.0.0.1", cwd=place) == "127.0.0.1"
    lines = "job=12; umask $1; make_folders; remove_scratch; umask; echo $logs"
    told = bash(lines, oct(mask)[2:], cwd=place).split()
    path = place / "twom-logs" / "12"
    # Outputs have the permissions that they had.
    assert told == [f"{mask:04o}", str(path)]
    assert path.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o777 == 0o775 & ~mask


def test_folders_of_others_are_refused_also_while_workers_start(shared):
    shared.plant(shared.folder / "twom-logs" / "12")
    code, err = shared.run()
    assert code == 2
    assert re.match("lsf.sh: error: '.*/twom-logs/12' (belongs to|is open to)", err)
    assert not (shared.folder / "launching").exists()
    process = shared.start("--logs", "logs/12", TWOM_DIST="exec sleep 60")
    wait_until((shared.folder / "launching").exists)
    (shared.folder / "logs").rename(shared.folder / "aside")
    shared.plant(shared.folder / "logs" / "12")
    (shared.folder / "acted").touch()
    code, err = shared.end(process)
    assert code == 1
    assert re.search(r"the workers of localhost ended \(.*(belongs|is open) to", err)
    assert not (shared.folder / "ran").exists()
    # What it has written lies where it was, and not in the folder of the other.
    left = {path.name for path in (shared.folder / "aside" / "12").iterdir()}
    assert left == {"launch.log", "scheduler.log"}
    planted = shared.folder / "logs" / "12"
    assert [path.name for path in planted.iterdir()] == ["settings.sh"]


def test_certificates_that_others_may_read_or_change_are_refused(shared):
    folder = shared.folder / "tls"
    folder.mkdir(0o755)
    key, ca = folder / "key.pem", folder / "ca.pem"
    given = {f"{TLS}__CA_FILE": str(ca), f"{TLS}__SCHEDULER__KEY": str(key)}
    for changed, mode in ((key, 0o644), (ca, 0o664), (ca, 0o646)):
        for path, usual, kind in ((key, 0o600, "PRIVATE KEY"), (ca, 0o644, "CERT")):
            path.write_text(f"-----BEGIN {kind}-----")
            os.chown(path, *([OWNER] * 2 if shared.user else [-1, -1]))
            path.chmod(mode if path == changed else usual)
        code, err = shared.run("--logs", "none", "--protocol", "tls", **given)
        assert (code, f"'{changed}' is open to others" in err) == (2, True)
    assert not (shared.folder / "none").exists()


LOCAL = {"script": "local_cuda.sh"}
CPU = "--device=cpu"
# Status and end of stderr of a job; those in tests/nightly/batch have the same of real
# clusters.
ENDS = [
    (3, "", {"TWOM_DIST": "exit 3"}),
    (1, "no scheduler file after 1 s", {"SCHEDULER": "exec sleep 60"}),
    (1, r"the scheduler did not .*\(no luck\)", {"SCHEDULER": "echo no luck; exit"}),
    (1, r"the scheduler ended \(.*\)", {"SCHEDULER": "(sleep 0.6; kill $$) &"}),
    (1, r"the workers of .* ended \(no luck\)", {"WORKER": "echo no luck; exit"}),
]


@pytest.mark.parametrize(("code", "sentence", "acts"), ENDS)
def test_a_job_ends_as_its_command_does_or_its_cluster(shared, code, sentence, acts):
    wait = "1" if "after 1 s" in sentence else "60"
    acts = {"TWOM_DIST": "exec sleep 60"} | acts
    found, err = shared.run(CPU, "--wait", wait, **LOCAL, **acts)
    told = f"local_cuda.sh: error: {sentence}; see /.*\n" if sentence else ""
    assert found == code
    assert re.fullmatch(told, err), err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_job_that_is_told_to_end_ends_its_command_first(shared, number):
    # With another status where the scheduler has gone before it.
    end = 'kill -0 "$(<scheduler)" && exit 143'
    command = f"trap '{end}' TERM; touch running; while :; do sleep 0.1; done"
    acts = {"SCHEDULER": "echo $$ >scheduler", "TWOM_DIST": command}
    process = shared.start(CPU, **LOCAL, **acts)
    wait_until((shared.folder / "running").exists)
    os.kill(process.pid, number)
    near = number == signal.SIGUSR1
    why = "the time limit is near" if near else "stopped by a signal"
    assert shared.end(process) == (143, f"local_cuda.sh: {why}\n")


@pytest.mark.parametrize("dashboard", [False, True])
def test_only_a_dashboard_serves_pages_that_tell_of_the_job(shared, dashboard):
    options = ("--dashboard", "127.0.0.1:0") * dashboard
    log = "$(echo logs/worker-localhost.log)"  # a pattern until there is one
    wait = f"until [[ -s {log} ]]; do sleep 0.01; done"
    given = LOCAL | {"TWOM_DIST": wait}
    assert shared.run(CPU, "--logs", "logs", *options, **given) == (0, "")
    for process in ("scheduler", "worker-localhost"):
        lines = (shared.folder / "logs" / f"{process}.log").read_text().splitlines()
        set_up = collect_env(env=dict(line.split("=", 1) for line in lines))
        assert get("distributed.worker.profile.enabled", config=set_up) is False
        for kind in ("scheduler", "worker"):
            routes = get(f"distributed.{kind}.http.routes", None, config=set_up)
            if dashboard and kind == "scheduler":
                assert routes is None
            else:
                assert [path for path, *_ in get_handlers(None, routes)] == ["/health"]


# Starts a worker, and starts it again.
SCRIPT = """
import os
import twom_dist as td

if __name__ == "__main__":
    with td.local_cluster(n_workers=1, gpus=False) as client:
        assert "PYTHONSAFEPATH" not in os.environ
        client.restart()
        print(*client.run(lambda dask_worker: dask_worker.local_directory).values())
"""
PLANT = "import os\nopen({ran!r}, 'a').write(str(os.getpid()))\n"


def plant(folder, ran):
    for name in ("multiprocessing", "distributed", "json", "numpy"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(PLANT.format(ran=str(ran)))
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o777)
        if os.geteuid() == 0:
            os.chown(each, OTHER, OTHER)


def python(folder, *command, **variables):
    given = {"cwd": folder, "env": ENVIRONMENT | variables, "text": True}
    return subprocess.check_output([sys.executable, *map(str, command)], **given)


def test_clusters_import_and_spill_nothing_where_others_write(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    scratch, mine = tmp_path / "tmp" / "dask-scratch-space", tmp_path / "mine"
    for folder in (scratch, tmp_path / "shared"):
        plant(folder, tmp_path / "ran")
    mine.write_text("kept")
    (scratch / "global.lock").symlink_to(mine)
    there = sorted(scratch.parent.rglob("*"))
    spilled = python(tmp_path / "shared", script, TMPDIR=str(scratch.parent))
    assert not spilled.startswith(str(scratch))
    assert mine.read_text() == "kept"
    # Nothing was put there, and the cluster's own folder is gone.
    assert sorted(scratch.parent.rglob("*")) == there
    a, c = tmp_path / "A.npy", tmp_path / "C.npy"
    np.save(a, np.eye(4))
    command = Path(sys.executable).with_name("twom-dist")
    fast = ("--engine", "reference", "--num-moduli", "16")
    product = ("gemm", a, a, "-o", c, "--n-workers", 1, *fast)
    python(tmp_path / "shared", command, *product)
    assert not (tmp_path / "ran").exists()
