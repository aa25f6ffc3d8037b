"""What GitHub runs: nothing that may change unseen, and with no rights but to read."""

import re
import tomllib

import yaml

from tests.support.places import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_actions_are_pinned_and_jobs_are_limited():
    assert WORKFLOWS
    for path in WORKFLOWS:
        text = path.read_text("utf-8")
        uses = re.findall(r"\buses: (.*)", text)
        assert uses
        for action in uses:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
        found = yaml.safe_load(text)
        assert found["permissions"] == {"contents": "read"}
        assert found["concurrency"]
        assert all(0 < job["timeout-minutes"] <= 300 for job in found["jobs"].values())


def test_the_oldest_and_the_newest_python_are_tried_on_both_families_of_cpus():
    found = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    matrix = found["jobs"]["check"]["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    known = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert matrix["python"] == [known[0], known[-1]]
    assert [name.endswith("-arm") for name in matrix["os"]] == [False, True]
