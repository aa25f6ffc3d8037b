"""CuPy arrays without a GPU: graphs are built, everything else is refused."""

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import first_number, raises
from tests.support.stages import count_stages
from twom_dist.errors import ArgumentError, MemoryLimitError, MemoryWarning, PlanError
from twom_dist.kernels.family import empty_block
from twom_dist.workers import devices

cupy = pytest.importorskip("cupy")


def lazy(dtype="complex128", shape=(64, 48), chunks=16):
    """A dask array whose blocks will be CuPy's."""
    x = da.ones(shape, chunks=chunks, dtype=dtype)
    return x.map_blocks(cupy.asarray, dtype=dtype, meta=empty_block("cupy", dtype))


@cases(
    "build",
    [
        lambda x: td.gemm(x, x, op_b="C"),
        lambda x: td.herk(x),
        lambda x: td.syr2k(x, x, uplo="lower"),
        lambda x: td.gemm(x, x, op_b="C", alpha=0),
        lambda x: td.gemm(x, x, op_b="C", engine="cuda", method="blas"),
        # Promoted on the device.
        lambda _: td.zgemm(lazy("complex64"), lazy("complex64"), op_b="C"),
    ],
)
def test_a_client_without_a_gpu_builds_the_graph(build):
    product = build(lazy())
    assert product.dtype == "complex128"
    assert product.shape == (64, 64)
    assert isinstance(product._meta, cupy.ndarray)
    assert count_stages(product).total() >= 16
    plan = td.plan(td.herk, lazy())
    assert plan.spec.engine == "cuda"
    assert plan.num_tasks == count_stages(td.herk(lazy())).total()


def test_a_product_that_the_device_cannot_hold_is_refused(monkeypatch):
    x = lazy(shape=(10000, 10000), chunks=2000)  # 1.4 GiB

    def holds(mib):
        own = {"free_bytes": (mib - 1024) << 20, "own_bytes": 1 << 30}
        device = devices.WorkerDevice("here", **own)
        monkeypatch.setattr(devices, "measure_device", lambda: device)

    holds(5 * 1024)
    # Tasks can make the chunks themselves.
    assert td.plan(td.gemm, x, x).streams
    with dask.config.set({"twom-dist.inputs": "hold"}):
        for call in (lambda: td.gemm(x, x), lambda: td.plan(td.gemm, x, x)):
            with raises(MemoryLimitError, "memory") as caught:
                call()
        assert "use chunks smaller than 2000" in caught.value.remedy
        # What the refusal names is enough, though not for all of the result.
        holds(first_number(caught.value.remedy))
        with pytest.warns(MemoryWarning, match="cannot hold all of the result"):
            td.gemm(x, x)
        assert td.plan(td.gemm, x, x).cluster.memory.kind == "device"


def on(device):
    nothing = cupy.cuda.UnownedMemory(0, 0, None, device_id=device)
    pointer = cupy.cuda.MemoryPointer(nothing, 0)
    return cupy.ndarray((0, 0), "complex128", memptr=pointer)


@cases(
    ("error", "code", "call"),
    [
        (ArgumentError, "families", lambda x: td.gemm(x, np.ones((48, 4)))),
        (ArgumentError, "families", lambda x: td.herk(np.ones((64, 3)), x)),
        (ArgumentError, "families", lambda x: td.plan(td.gemm, x, np.ones((48, 4)))),
        (PlanError, "engine-family", lambda x: td.herk(x, engine="cpu")),
        (PlanError, "engine-family", lambda x: td.plan(td.herk, x, engine="cpu")),
        (PlanError, "devices", lambda _: td.gemm(on(0), on(1))),
    ],
)
def test_families_and_devices_do_not_mix(error, code, call):
    with raises(error, code):
        call(lazy())
