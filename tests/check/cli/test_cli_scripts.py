"""``twom-dist scripts``: the launch scripts, all or none."""

import errno
import os
import shutil

import pytest

from tests.support.command import contents
from tests.support.places import CLUSTER


def executables(folder):
    return {path.name: path.stat().st_mode & 0o111 for path in folder.iterdir()}


def test_the_scripts_are_written_and_what_is_there_is_kept(call, here):
    """Unless told otherwise; a link is replaced and not followed."""
    code, out, err = call("scripts", "jobs/my scripts")
    assert (code, err) == (0, "")
    assert "jobs/my scripts/README.md" in out
    written, precious = here / "jobs/my scripts", here / "precious"
    assert contents(written) == contents(CLUSTER)
    assert executables(written) == executables(CLUSTER)
    precious.write_text("as it was")
    (written / "worker.sh").unlink()
    (written / "worker.sh").symlink_to(precious)
    before = contents(here)
    call.assert_refuses("scripts", written, why="scripts-exist")
    assert contents(here) == before
    assert call("scripts", written, "--overwrite")[0] == 0
    assert precious.read_text() == "as it was"
    assert contents(written) == contents(CLUSTER)
    assert not (written / "worker.sh").is_symlink()


@pytest.mark.parametrize(
    ("place", "code"),
    [("jobs/worker.sh/mine", "scripts-exist"), ("jobs", "scripts-not-written")],
)
def test_what_cannot_be_replaced_is_refused(call, here, place, code):
    (here / place).parent.mkdir(parents=True, exist_ok=True)
    (here / place).touch()
    before = contents(here)
    call.assert_refuses("scripts", "jobs", "--overwrite", why=code)
    assert contents(here) == before


@pytest.mark.parametrize("module", [shutil, os])
def test_what_fails_in_the_middle_changes_nothing(call, here, monkeypatch, module):
    """As on a full disk, and where one of the files may not be renamed."""
    assert call("scripts", "jobs")[0] == 0
    for path in (here / "jobs").iterdir():
        path.write_text(f"{path.name}, as it was")
    (here / "jobs" / "worker.sh").unlink()
    before, name = contents(here), {shutil: "copy", os: "rename"}[module]
    act, count = getattr(module, name), iter(range(100))

    def fail_once(*args, **kwargs):
        if next(count) == 4:
            raise OSError(errno.EPERM, "Operation not permitted")
        return act(*args, **kwargs)

    monkeypatch.setattr(module, name, fail_once)
    why = "scripts-not-written"
    call.assert_refuses("scripts", "jobs", "--overwrite", why=why)
    assert contents(here) == before
