"""Blocks of one worker on a device go to another by handles of CUDA's.

Needs Linux, CuPy and a GPU that two processes may use at once, with 1 GB free. Both are
on the first GPU: peer access between two is not tested.
"""

import numpy as np
import pytest
from distributed import Client, LocalCluster

from tests.gpu.ways import engine_or_skip
from tests.support.expect import same_bits
from tests.support.jobs import HERE, addresses
from tests.support.strategies import random_matrix
from twom_dist.kernels.cuda.decode import CudaFill
from twom_dist.workers.client import ensure_plugins
from twom_dist.workers.transport.device_accumulator import DeviceAccumulator
from twom_dist.workers.transport.worker_plugin import TransportPlugin

pytestmark = pytest.mark.gpu

engine_or_skip()

SIDE = 800  # 10 MB, which lanes take beside TCP
GIVEN = random_matrix(SIDE, SIDE, seed=1)


@pytest.fixture(scope="module", params=[False, True], ids=["tcp", "tls"])
def client(request):
    options = HERE | {"protocol": None, "security": request.param or None}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster,
        Client(cluster) as client,
    ):
        ensure_plugins()
        yield client


def make(kind):
    """Make a block that kernels still write as its task ends."""
    import cupy

    x = cupy.asarray(GIVEN)
    for _ in range(200):
        x = x + 1
    for _ in range(200):
        x = x - 1
    x = cupy.asarray(GIVEN) + 0 * x.real
    if kind == "accumulator":
        marks = cupy.eye(SIDE, dtype="u1")
        return DeviceAccumulator(x, CudaFill(marks, marks[0], marks[1]))
    return {
        "block": lambda: x,
        "part": lambda: x[1:],
        "columns": lambda: cupy.asfortranarray(x),
    }[kind]()


def fetch(x):
    import cupy

    found = x.values if isinstance(x, DeviceAccumulator) else x
    assert isinstance(found, cupy.ndarray)
    return cupy.asnumpy(found)


def read_carried(dask_worker):
    return dict(dask_worker.plugins[TransportPlugin.name].carried)


@pytest.mark.parametrize("kind", ["block", "part", "columns", "accumulator"])
def test_blocks_go_by_handles(client, kind):
    one, other = addresses(client)
    before = client.run(read_carried)[one].get("device", 0)
    expected = GIVEN[1:] if kind == "part" else GIVEN
    for turn in range(5):
        block = client.submit(make, kind, workers=[one], pure=False)
        found = client.submit(fetch, block, workers=[other], pure=False).result()
        assert same_bits(np.ascontiguousarray(found), expected), turn
    after = client.run(read_carried)[one]["device"]
    assert after - before >= 5 * expected.nbytes


def refuse_handles():
    from twom_dist.workers.transport.handles import Ipc

    def refuse(self, handle):
        raise RuntimeError("no peer access")

    Ipc.open = refuse


def test_blocks_go_by_lanes_without_peer_access():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, **HERE) as cluster,
        Client(cluster) as client,
    ):
        ensure_plugins()
        client.run(refuse_handles)
        one, other = addresses(client)
        block = client.submit(make, "block", workers=[one], pure=False)
        found = client.submit(fetch, block, workers=[other], pure=False).result()
        assert same_bits(found, GIVEN)
        assert client.run(read_carried)[one] == {"lanes": GIVEN.nbytes}
