"""Products of workers that are on different hosts, as far as the network tells."""

import os
import shutil

import dask.array as da
import pytest

import twom_dist as td
from benchmarks.bench_transport import make_namespace, start
from tests.support.expect import same_bits
from tests.support.strategies import random_matrix

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("ip") is None,
    reason="only root makes network namespaces, by iproute2",
)


def count_carried(dask_worker):
    return sum(dask_worker.plugins["twom-transport"].carried.values())


@pytest.mark.parametrize("secure", [True, False])
def test_blocks_go_by_lanes_from_one_namespace_to_another(secure):
    a, b = random_matrix(300, 200), random_matrix(200, 300, seed=1)
    with make_namespace() as apart, start(secure, "auto", apart) as client:
        x, y = (da.from_array(t, chunks=100).persist() for t in (a, b))
        found = td.gemm(x, y, num_moduli=16).compute()
        carried = client.run(count_carried)
    assert same_bits(found, td.gemm(a, b, num_moduli=16))
    assert len(carried) == 2
    assert sum(carried.values()) > 0
