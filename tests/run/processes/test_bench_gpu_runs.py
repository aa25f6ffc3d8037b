"""The GPU benchmarks as commands, on machines without a GPU."""

import os
import subprocess
import sys

import pytest

from benchmarks.gpu_peers import (
    run_peer,
)
from tests.support.places import ROOT


def test_the_command_line_is_read_without_a_gpu():
    pytest.importorskip("cupy")
    script = ROOT / "benchmarks" / "bench_gpu.py"
    command = [sys.executable, str(script), "--part"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for part, status in (("ours", 0), ("halves", 2)):
        done = subprocess.run(
            [*command, part, "--help"] if status == 0 else [*command, part],
            env=environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == status


def test_a_peer_prints_results_before_it_fails():
    script = "import os; print('{\"n\":', os.environ['N'], '}', flush=True)"
    assert run_peer([sys.executable, "-c", script], {"N": "5"}, 60) == ([{"n": 5}], "")
    lost = f"{script}\nraise SystemExit('no memory')"
    found = run_peer([sys.executable, "-c", lost], {"N": "5"}, 60)
    assert found == ([{"n": 5}], "no memory")


def test_a_peer_that_takes_too_long_is_stopped():
    hangs = "import time; time.sleep(60)"
    found, failure = run_peer([sys.executable, "-c", hangs], {}, 0.5)
    assert found == []
    assert "stopped" in failure
