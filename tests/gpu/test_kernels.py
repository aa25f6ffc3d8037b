"""Every kernel on a device, once and small: what `make sanitize-gpu` watches."""

from unittest import mock

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.gpu.ways import WAYS, engine_or_skip, take
from tests.support.cuda import every_kernel
from twom_dist.kernels import get_engine

pytestmark = pytest.mark.gpu

engine_or_skip()


@pytest.fixture
def cp():
    """CuPy without its pool, inside of which no sanitizer sees where an array ends."""
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.using_allocator():
        yield cupy


@pytest.mark.parametrize("way", WAYS)
def test_every_kernel_runs(cp, way, monkeypatch):
    device = get_engine("cuda").device
    take(way, device.capability(), monkeypatch)
    with mock.patch.object(device, "launch", wraps=device.launch) as launch:
        for routine, arrays, options in every_kernel.calls_of_every_kernel():
            found = cp.asnumpy(routine(*map(cp.asarray, arrays), **options))
            np.testing.assert_array_equal(found, routine(*arrays, **options))
        A = np.arange(99.0).reshape(9, 11)
        a = da.from_array(cp.asarray(A), chunks=5)
        found = td.gemm(a, a, op_b="T").compute(scheduler="sync")
        np.testing.assert_array_equal(cp.asnumpy(found), td.gemm(A, A, op_b="T"))
        every_kernel.add_sums(get_engine("cuda"), cp.eye(5), cp.zeros(5, np.int32))
    assert {call.args[1] for call in launch.call_args_list} == every_kernel.kernels_of(
        device.capability()
    )
