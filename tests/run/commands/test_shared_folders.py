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


def test_what_is_neither_a_file_nor_a_folder_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "none"):
        assert trust(tmp_path / name) == "cannot be read"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may hand files over")
def test_what_belongs_to_another_is_not_trusted(tmp_path):
    os.chown(tmp_path, OTHER, OTHER)
    assert trust(tmp_path) == "belongs to another user"


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022])
def test_a_job_makes_a_folder_of_its_own_below_one_that_a_group_may_share(
    tmp_path, mask
):
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
        assert code == 2
        assert f"error: the TLS file '{changed}' is open to others" in err
    assert not (shared.folder / "none").exists()


def test_modules_in_the_current_folder_are_not_imported(tmp_path):
    (tmp_path / "socket.py").write_text("raise SystemExit('imported')")
    assert bash("address_towards 127.0.0.1", cwd=tmp_path) == "127.0.0.1"


def test_names_that_lead_elsewhere_later_change_nothing(tmp_path):
    (tmp_path / "ca").write_text("first")
    (tmp_path / "new").write_text("second")
    lines = f"""
    export {TLS}__CA_FILE=ca
    check_certificates
    mv new ca
    option[scratch]=$PWD
    make_scratch 2
    mv "$scratch_name" aside
    mkdir "$scratch_name"
    touch "$scratch/spilled"
    echo $(cat "${TLS}__CA_FILE") $(ls aside)
    """
    assert bash(lines, cwd=tmp_path) == "first spilled"


@pytest.mark.parametrize("shared", ["among others"], indirect=True)
@pytest.mark.parametrize("script", ["pbs.sh", "slurm.sbatch"])
def test_scripts_of_others_near_a_copy_are_not_taken_for_its_own(shared, script):
    near = (shared.folder / "cluster").rename(shared.folder / "a")
    if script == "slurm.sbatch":
        near = near.rename(shared.folder / "cluster")
    copy = Path(shutil.copy(near / script, shared.folder / "12.SC"))
    submitted = {"PBS_O_WORKDIR": str(shared.folder)}
    submitted["SLURM_SUBMIT_DIR"] = str(shared.folder)
    for owner, code in ((OWNER, 0), (OTHER, 2)):
        for path in (near, *near.iterdir()):
            os.chown(path, owner, owner)
        command = [str(copy), "--help"]
        environment = {"PATH": "/usr/bin:/bin", **submitted}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, **shared.user
        )
        assert done.returncode == code
        assert (": error: common.sh is not beside it" in done.stderr) == (code == 2)


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


@pytest.fixture
def plant(tmp_path):
    """Make a folder of modules of another user's, which write to `ran`."""

    def make(folder):
        ran = str(tmp_path / "ran")
        for name in ("multiprocessing", "distributed", "json"):
            package = folder / name
            package.mkdir(parents=True)
            (package / "__init__.py").write_text(PLANT.format(ran=ran))
        (folder / "numpy.py").write_text(PLANT.format(ran=ran))
        for each in (folder, *folder.rglob("*")):
            each.chmod(0o777)
            if os.geteuid() == 0:
                os.chown(each, OTHER, OTHER)
        return folder

    return make


def python(folder, *command, **variables):
    """Run Python in a folder; what it prints."""
    given = {"cwd": folder, "env": ENVIRONMENT | variables, "text": True}
    return subprocess.check_output([sys.executable, *map(str, command)], **given)


def test_clusters_import_and_spill_nothing_where_others_write(plant, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    scratch, mine = tmp_path / "tmp" / "dask-scratch-space", tmp_path / "mine"
    for folder in (scratch, tmp_path / "shared"):
        plant(folder)
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
