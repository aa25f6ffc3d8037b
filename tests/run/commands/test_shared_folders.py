"""Jobs and clusters in folders that others can write to: nobody becomes their owner.

For jobs dask, python3 and twom-dist are stand-ins that start at once and do nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

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


def bash(script: str, *arguments: object, cwd: Path | None = None) -> str:
    """Run lines of bash with the functions of the scripts; return the output."""
    lines = f'source "{CLUSTER}/common.sh"\n{script}'
    command = ["bash", "-uc", lines, "test", *map(str, arguments)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {"cwd": cwd, "env": os.environ | {"PATH": path}, "text": True}
    return subprocess.check_output(command, **given).strip()


def trust(path: Path, bits: int = 22) -> str:
    """Say what is wrong with a file or a folder; nothing if it can be trusted."""
    return bash('hold "$1" "$2" || echo "$flaw"', path, bits)


@dataclass
class Shared:
    """A folder in which everybody may make files, and who runs jobs there."""

    folder: Path
    user: dict[str, object]

    @property
    def stranger(self) -> int:
        """Number of another user, or of this one where nobody may act as others."""
        return OTHER if self.user else os.geteuid()

    def start(self, *arguments: str, script="lsf.sh", **variables: str):
        """Start a job without credentials."""
        path = f"{self.folder}/bin:/usr/bin:/bin"
        batch = {"LSB_JOBID": "12", "LSB_DJOB_HOSTFILE": "nodes", "TMPDIR": "/tmp"}
        command = [self.folder / "cluster" / script, "--protocol", "tcp", *arguments]
        return subprocess.Popen(
            [*command, "herk", "A", "-o", "C"],
            cwd=self.folder,
            env={"PATH": path, **batch, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **self.user,
        )

    def run(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Return exit status and stderr of a job."""
        process = self.start(*arguments, **variables)
        _, err = process.communicate(timeout=30)
        return process.returncode, err

    def plant(self, path: Path) -> None:
        """Put a folder of another user there; where nobody is another, an open one."""
        path.mkdir(parents=True)
        path.chmod(0o755 if self.user else 0o777)
        (path / "settings.sh").write_text(f"id -u >{self.folder}/ran; exit\n")
        for each in (path.parent, path, path / "settings.sh"):
            os.chown(each, self.stranger, -1)


@pytest.fixture(params=["alone", "among others"])
def shared(request) -> Iterator[Shared]:
    """Make such a folder, on whose path there is none of this user's alone."""
    user = {}
    if request.param == "among others":
        # Nobody but root can hand files over to others.
        if os.geteuid() != 0:
            pytest.skip("only root may act as other users")
        user = {"user": OWNER, "group": OWNER, "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="shared-", dir="/tmp"))
    try:
        shutil.copytree(CLUSTER, folder / "cluster")
        (folder / "bin").mkdir()
        for name in ("dask", "python3", "twom-dist"):
            shutil.copy(STAND_INS / "idle", folder / "bin" / name)
        (folder / "bin" / "blaunch").write_text(BLAUNCH)
        (folder / "bin" / "blaunch").chmod(0o755)
        (folder / "nodes").write_text("localhost\n")
        folder.chmod(0o1777)
        yield Shared(folder, user)
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
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
    folder = tmp_path / "above" / "a b"
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


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022])
def test_a_job_makes_a_folder_of_its_own_below_one_that_a_group_may_share(
    tmp_path, mask
):
    # Modules in the current folder are not imported.
    (tmp_path / "socket.py").write_text("raise SystemExit('imported')")
    assert bash("address_towards 127.0.0.1", cwd=tmp_path) == "127.0.0.1"
    lines = "job=12; umask $1; make_folders; remove_scratch; umask; echo $logs"
    told = bash(lines, oct(mask)[2:], cwd=tmp_path).split()
    path = tmp_path / "twom-logs" / "12"
    # Outputs have the permissions that they had.
    assert told == [f"{mask:04o}", str(path)]
    assert path.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o777 == 0o775 & ~mask


def test_the_folder_of_another_is_refused_before_anything_starts(shared):
    shared.plant(shared.folder / "twom-logs" / "12")
    code, err = shared.run()
    assert code == 2
    assert re.match("lsf.sh: error: '.*/twom-logs/12' (belongs to|is open to)", err)
    assert not (shared.folder / "launching").exists()


def test_a_folder_that_is_exchanged_while_workers_start_is_not_trusted(shared):
    process = shared.start("--logs", "logs/12", TWOM_DIST="exec sleep 60")
    wait_until((shared.folder / "launching").exists, 20)
    (shared.folder / "logs").rename(shared.folder / "aside")
    shared.plant(shared.folder / "logs" / "12")
    (shared.folder / "acted").touch()
    _, err = process.communicate(timeout=30)
    assert not (shared.folder / "ran").exists()
    assert process.returncode == 1
    assert re.search(r"the workers of localhost ended \(.*(belongs|is open) to", err)
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
        key.write_text("-----BEGIN PRIVATE KEY-----")
        ca.write_text("-----BEGIN CERTIFICATE-----")
        for path, usual in ((key, 0o600), (ca, 0o644)):
            os.chown(path, *([OWNER] * 2 if shared.user else [-1, -1]))
            path.chmod(mode if path == changed else usual)
        code, err = shared.run("--logs", "none", "--protocol", "tls", **given)
        assert (code, f"'{changed}' is open to others" in err) == (2, True)
    assert not (shared.folder / "none").exists()


# --- clusters of td.local_cluster -----------------------------------------------------

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
    """Make a folder of modules of another user's, which write to `ran`."""
    for name in ("multiprocessing", "distributed", "json", "numpy"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(PLANT.format(ran=str(ran)))
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o777)
        if os.geteuid() == 0:
            os.chown(each, OTHER, OTHER)


def python(folder, *command, **variables):
    """Run Python in a folder; what it prints."""
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
