"""``twom-dist scripts``: the launch scripts, all or none."""

from pathlib import Path

import pytest

from tests.command import contents

CLUSTER = Path(__file__).parents[2] / "cluster"


def executables(folder):
    return {path.name: path.stat().st_mode & 0o111 for path in folder.iterdir()}


def test_the_scripts_are_written_as_they_are(call, tmp_path):
    code, out, err = call("scripts", "jobs/my scripts")
    assert (code, err) == (0, "")
    assert "slurm.sbatch" in out
    assert str(Path("jobs/my scripts/README.md")) in out
    written = tmp_path / "jobs/my scripts"
    assert contents(written) == contents(CLUSTER)
    assert executables(written) == executables(CLUSTER)


def test_what_is_there_is_kept_unless_told_otherwise(call, tmp_path):
    (tmp_path / "precious").write_text("as it was")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/lsf.sh").write_text("mine")
    # A link is replaced and not followed.
    (tmp_path / "jobs/worker.sh").symlink_to(tmp_path / "precious")
    before = contents(tmp_path)
    call.assert_refuses("scripts", "jobs", why="scripts-exist")
    assert contents(tmp_path) == before
    assert call("scripts", "jobs", "--overwrite")[0] == 0
    assert (tmp_path / "precious").read_text() == "as it was"
    assert contents(tmp_path / "jobs") == contents(CLUSTER)
    assert not (tmp_path / "jobs/worker.sh").is_symlink()


@pytest.mark.parametrize(
    ("place", "code"),
    [("jobs/worker.sh/mine", "scripts-exist"), ("jobs", "scripts-not-written")],
)
def test_what_cannot_be_replaced_is_refused(call, tmp_path, place, code):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).touch()
    before = contents(tmp_path)
    call.assert_refuses("scripts", "jobs", "--overwrite", why=code)
    assert contents(tmp_path) == before
