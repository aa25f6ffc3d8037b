"""What tests of jobs share."""

from contextlib import chdir

import pytest
from distributed import Client, LocalCluster

from tests.command import save_operands
from tests.jobs import K, M, N

GIB = 2**30


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    """Two workers in a folder of their own, for every test that does not harm them.

    Who names no client is not served by them.
    """
    options = {"threads_per_worker": 1, "memory_limit": 2 * GIB}
    # Not in the folder of the test that happens to be the first to ask.
    with chdir(tmp_path_factory.mktemp("workers")):
        cluster = LocalCluster(n_workers=2, dashboard_address="127.0.0.1:0", **options)
    with cluster, Client(cluster, set_as_default=False) as made:
        yield made


@pytest.fixture
def files(here):
    """A.zarr, B.npy and C0.h5 in a folder of their own, which is the current one."""
    return save_operands(M, K, N)
