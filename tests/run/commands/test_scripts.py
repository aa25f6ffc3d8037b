"""The scripts with stand-ins for PBS, LSF and GPUs; dask and twom-dist are real."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import twom_dist as td
from tests.support.batch import HERK, PLAIN, log, run
from tests.support.command import contents, read
from tests.support.expect import same_bits
from tests.support.places import CLUSTER, STAND_INS


def test_the_scripts_are_clean():
    # Not a Python package; CI installs it.
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is missing: apt-get install shellcheck")
    scripts = [*CLUSTER.glob("*.sh"), *CLUSTER.glob("*.sbatch")]
    stand_ins = [STAND_INS / name for name in ("pbsdsh", "blaunch", "idle")]
    assert len(scripts) == 7
    command = ["shellcheck", "-x", *scripts, *stand_ins]
    done = subprocess.run(command, cwd=CLUSTER.parent, capture_output=True, text=True)
    assert done.stdout == ""


def test_one_machine(folder):
    options = ("--device=cpu", "--workers=2", "--interface", "lo")
    code, out, err = run("local_cuda.sh", *options, *HERK, *PLAIN)
    assert (code, err.count("\n")) == (0, 1), err
    assert out.startswith(f"{folder}/C.zarr: herk, 60 x 60 complex128")
    assert same_bits(read("C.zarr"), td.herk(read("A.zarr")))
    assert "tcp://" not in log("scheduler") + log("worker-localhost")


def test_workers_get_the_settings_of_object_stores_in_a_file_of_ours(tmp_path):
    """As on nodes of PBS, which start them without the job's environment."""
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "a 'quoted' $secret",
        "AZURE_STORAGE_KEY": "two\nlines",
        "FSSPEC_S3_KEY": "x",
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json",
    }
    write = """source "$0/common.sh"; folder=$1 logs=$1
    directory='' scheduler_address='' protocol=''; write_settings"""
    done = subprocess.run(
        ["bash", "-uc", write, CLUSTER, tmp_path],
        env={"PATH": os.environ["PATH"], "HISTFILE": "mine", **secrets},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    settings = tmp_path / "settings.sh"
    assert settings.stat().st_mode & 0o777 == 0o600
    assert "HISTFILE" not in settings.read_text()
    source = "declare -A option=() cpus=() memory=() certificates=(); source $0; env -0"
    found = subprocess.check_output(["bash", "-c", source, settings], env={}, text=True)
    assert (
        secrets.items() <= dict(x.split("=", 1) for x in found[:-1].split("\0")).items()
    )


REFUSALS = [
    ((), "no command given, such as: herk"),
    (("--fast", "1", *HERK), "--fast does not exist; see --help"),
    (("--wait", "0", *HERK), "--wait 0 given"),
    (("--device", "gpu", *HERK), "--device gpu given, and there is no GPU"),
    (("--dashboard", ":8787", *HERK), "--dashboard :8787 given"),
    (("--venv", "none", *HERK), "'none/bin/twom-dist' is not a program"),
    ((*HERK, "--threads", "2"), "--threads is an option of this script: write it"),
    (("info",), "twom-dist info needs no workers"),
    (("--tls-cert", "A.zarr", *HERK), "--tls-ca-file and --tls-cert belong together"),
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


def test_help_and_the_readme_list_the_same_options(folder, monkeypatch):
    # A copy of the script finds the others where it was submitted.
    shutil.copytree(CLUSTER, "my scripts")
    spool = shutil.copy(CLUSTER / "pbs.sh", folder / "12.SC")
    monkeypatch.setenv("PBS_O_WORKDIR", str(folder / "my scripts"))
    code, out, err = run(spool, "--help")
    assert (code, err) == (0, "")
    table = (CLUSTER / "README.md").read_text()
    options = re.findall(r"^  (--[a-z-]+)", out, re.MULTILINE)
    assert len(options) == 16
    assert re.findall(r"^\| `(--[a-z-]+)", table, re.MULTILINE) == options
