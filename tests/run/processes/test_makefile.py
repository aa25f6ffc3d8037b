"""What the Makefile installs, and when."""

import subprocess

import pytest

from tests.support.places import ROOT


@pytest.mark.parametrize(
    ("installed", "goal", "installs"),
    [
        ([], "demo", ["."]),
        ([".package"], "demo", []),
        ([".package"], "lint", [".[dev]"]),
        ([".package", ".tools"], "lint", []),
    ],
)
def test_each_goal_installs_what_it_needs_once(tmp_path, installed, goal, installs):
    for name in ("bin/python", *installed):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    command = ("make", "-n", goal, f"VENV={tmp_path}")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if "pip install" in line]
    assert [line.split(" -e ")[1].strip("'") for line in lines] == installs
