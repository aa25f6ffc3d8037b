"""How jobs end on a real Slurm of two nodes."""

import shutil
from pathlib import Path

import pytest

import twom_dist as td
from tests.support.batch import listening_addresses, parts_of_c, processes_of
from tests.support.command import contents, read
from tests.support.expect import same_bits
from tests.support.jobs import wait_until
from tests.support.places import CLUSTER

pytestmark = pytest.mark.slurm
SCRIPT = CLUSTER / "slurm.sbatch"


def test_a_job_ends_as_its_command_does(slurm, folder):
    shutil.copytree(CLUSTER, "my scripts")
    before = contents(folder)
    job = slurm.submit("my scripts/slurm.sbatch", "herk", "A.zarr", "-o", "none/C.zarr")
    state, code, output = slurm.wait(job)
    assert (state, code) == ("FAILED", 2)
    assert output.startswith("twom-dist: error: ")
    assert "none" in output
    assert output.count("\n") == 1
    new = set(contents(folder)) - set(before)
    assert {Path(name).parts[0] for name in new} == {"job.out", "twom-logs"}
    shutil.rmtree("twom-logs")
    # GPUs that were not allocated are asked for in vain.
    job = slurm.submit("-N2", SCRIPT, "--device", "gpu", "herk", "A.zarr", "-oC.zarr")
    state, code, output = slurm.wait(job)
    assert (state, code) == ("FAILED", 2)
    assert output.startswith("slurm.sbatch: error: --device gpu given, and there is no")
    assert not list(Path().glob("*C.zarr*"))
    assert not Path("twom-logs").exists()


def test_a_cancelled_job_leaves_nothing(slurm, folder, long_product):
    job = slurm.submit("-N2", SCRIPT, *long_product)
    wait_until(parts_of_c)
    assert listening_addresses(folder) == {"127.0.0.1"}
    slurm("scancel", job)
    state, _, output = slurm.wait(job)
    assert state == "CANCELLED"
    assert "\ntwom-dist: error: terminated" in output
    assert "Traceback" not in output
    assert not Path("C.zarr").exists()


def test_a_job_ends_in_good_order_before_its_time_limit(slurm, folder, long_product):
    job = slurm.submit(SCRIPT, *long_product)
    wait_until(parts_of_c)
    # Slurm counts limits in minutes and looks every half minute: the signal that comes
    # a minute before the end comes within half a minute.
    slurm("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    state, code, output = slurm.wait(job)
    assert (state, code) == ("FAILED", 143), output
    assert "slurm.sbatch: the time limit is near\n" in output
    assert "Traceback" not in output
    assert not Path("C.zarr").exists()


def test_dask_jobqueue_brings_workers(slurm, folder, monkeypatch):
    jobqueue = pytest.importorskip("dask_jobqueue", reason="pip install .[jobqueue]")
    from distributed import Client

    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    here = "127.0.0.1:0"
    with (
        jobqueue.SLURMCluster(
            **{"cores": 1, "processes": 1, "memory": "1GiB", "walltime": "00:05:00"},
            interface="lo",
            local_directory="scratch",
            log_directory="logs",
            security=True,
            # Without the space in `folder`, which dask-jobqueue does not quote.
            shared_temp_directory=str(folder.parent),
            scheduler_options={"dashboard_address": here},
            worker_extra_args=["--dashboard-address", here],
        ) as cluster,
        Client(cluster) as client,
    ):
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=100)
        assert listening_addresses(folder) == {"127.0.0.1"}
        options = {"chunks": 32, "engine": "reference", "num_moduli": 16}
        td.multiply_files("A.zarr", "B.zarr", "C.zarr", client=client, **options)
    # dask-jobqueue leaves them to the garbage collector.
    for credential in ("ca_file", "cert", "key"):
        getattr(cluster, f"_job_{credential}").close()
    assert same_bits(read("C.zarr"), td.gemm(read("A.zarr"), read("B.zarr")))
    wait_until(lambda: not processes_of(folder))
