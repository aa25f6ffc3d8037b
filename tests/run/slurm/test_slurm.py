"""slurm.sbatch on a real Slurm of two nodes."""

from pathlib import Path

import pytest

import twom_dist as td
from tests.support.command import read
from tests.support.expect import same_bits
from tests.support.places import CLUSTER

pytestmark = pytest.mark.slurm
SCRIPT = CLUSTER / "slurm.sbatch"


def test_a_product_on_two_nodes(slurm, folder):
    options = ("--chunks", "16", "--op-a", "C")
    job = slurm.submit("-N2", SCRIPT, "gemm", "A.zarr", "A.zarr", "-oC.zarr", *options)
    state, code, output = slurm.wait(job)
    assert (state, code) == ("COMPLETED", 0), output
    *progress, told = output.splitlines()
    assert told.startswith(f"{folder}/C.zarr: gemm, 40 x 40 complex128")
    # Of tiles, if the workers took more than ten seconds.
    assert all(x.startswith("twom-dist: ") for x in progress)
    a = read("A.zarr")
    assert same_bits(read("C.zarr"), td.gemm(a, a, op_a="C"))
    logs = Path("twom-logs", job)
    scheduler = (logs / "scheduler.log").read_text()
    assert "name: n1:1" in scheduler
    assert "name: n2:1" in scheduler
    # DefMemPerCPU of one core, which is one worker.
    assert "1.86 GiB" in (logs / "worker-n2.log").read_text()
