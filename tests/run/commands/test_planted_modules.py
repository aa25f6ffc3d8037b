"""Modules and folders that another user has put where workers start."""

import os
import subprocess
import sys

import pytest

from tests.support.command import ENVIRONMENT

OTHER = 65533
# Both commands start workers, and one of them starts a worker again.
SCRIPT = """
import os
import twom_dist as td

if __name__ == "__main__":
    before = dict(os.environ)
    with td.local_cluster(n_workers=1, gpus=False) as client:
        assert "PYTHONSAFEPATH" not in os.environ
        client.restart()
        (folder,) = client.run(os.getcwd).values()
        print(*client.run(lambda dask_worker: dask_worker.local_directory).values())
"""
PLANT = "import os\nopen({ran!r}, 'a').write(str(os.getpid()))\n"


@pytest.fixture
def planted(tmp_path):
    """A folder of another user's; as root, another one in truth."""

    def plant(folder):
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

    return plant


def start(folder, *command, **variables):
    """Run Python in a folder; what it prints."""
    given = {"cwd": folder, "env": ENVIRONMENT | variables, "text": True}
    return subprocess.check_output([sys.executable, *map(str, command)], **given)


def test_workers_import_nothing_from_the_current_folder(planted, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    folder = planted(tmp_path / "shared")
    start(folder, script)
    assert not (tmp_path / "ran").exists()


def test_clusters_spill_into_a_folder_of_their_own(planted, tmp_path):
    scratch, mine = tmp_path / "tmp" / "dask-scratch-space", tmp_path / "mine"
    planted(scratch)
    mine.write_text("kept")
    (scratch / "global.lock").symlink_to(mine)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    there = sorted(scratch.parent.rglob("*"))
    spilled = start(tmp_path, script, TMPDIR=str(scratch.parent))
    assert not spilled.startswith(str(scratch))
    assert mine.read_text() == "kept"
    assert not (tmp_path / "ran").exists()
    # Nothing was put there, and the cluster's own folder is gone.
    assert sorted(scratch.parent.rglob("*")) == there
