"""A job that is killed continues in the bucket."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from fsspec.core import url_to_fs

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.buckets import remove, serve_matrices
from tests.support.command import CommandLine
from tests.support.expect import raises
from tests.support.jobs import wait_until
from twom_dist.errors import StoreError
from twom_dist.store import open_matrix

BUCKET = "s3://bucket"
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def matrices() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Serve A and B."""
    with serve_matrices() as stored:
        yield stored


def test_a_job_that_is_killed_continues_in_the_bucket(matrices, capsys):
    a, b = matrices
    output = f"{BUCKET}/C.zarr"
    paths = (f"{BUCKET}/A.zarr", f"{BUCKET}/B.zarr/g/B")
    command = [sys.executable, "-m", "twom_dist", "gemm", *paths, "-o", output]
    command += ["--chunks", "16", "--num-moduli", "16"]
    command += ["--n-workers", "1", "--engine", "reference"]
    fs, place = url_to_fs(f"{output}/c", use_listings_cache=False)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as job:
        wait_until(lambda: len(fs.find(place)) >= 3, 60)
        job.kill()
    assert job.returncode == -signal.SIGKILL
    with raises(StoreError, "input-unfinished"):
        open_matrix(output)
    assert td.multiply_files(*paths, output, chunks=16, num_moduli=16).resumed >= 3
    assert same_bits(open_matrix(output)[:, :], td.gemm(a, b, num_moduli=16))
    code, out, _ = CommandLine(capsys)("info", output)
    assert (code, "complete" in out) == (0, True)
    remove(output)
