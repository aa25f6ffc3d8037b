"""CuPy arrays without a GPU: graphs are built, everything else is refused."""

import re
from dataclasses import replace
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.expect import first_number, raises
from tests.support.stages import count_stages
from tests.support.strategies import random_matrix
from twom_dist.errors import (
    ArgumentError,
    EngineUnavailableError,
    MemoryLimitError,
    MemoryWarning,
    PlanError,
)
from twom_dist.kernels.family import empty_block
from twom_dist.kernels.registry import get_engine
from twom_dist.problem.problem import of_headers
from twom_dist.run import client, devices
from twom_dist.run.devices import WorkerDevice
from twom_dist.tiles import tasks
from twom_dist.tiles.cache import encoded_tiles
from twom_dist.tiles.rows import Row

cupy = pytest.importorskip("cupy")


def lazy(dtype="complex128", shape=(64, 48)):
    """A dask array whose blocks will be CuPy's."""
    x = da.ones(shape, chunks=16, dtype=dtype)
    return x.map_blocks(cupy.asarray, dtype=dtype, meta=empty_block("cupy", dtype))


def has_device():
    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


@pytest.mark.parametrize(
    "build",
    [
        lambda x: td.gemm(x, x, op_b="C"),
        lambda x: td.gemm(x, x, op_b="T", num_moduli=12),
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


def test_a_plan_of_cupy_blocks_is_that_of_their_product():
    x = lazy()
    plan = td.plan(td.herk, x)
    assert plan.spec.engine == "cuda"
    assert plan.num_tasks == count_stages(td.herk(x)).total()


def large(chunks=2000):
    """A dask array of 1.4 GiB."""
    x = da.ones((10000, 10000), chunks=chunks, dtype=complex)
    return x.map_blocks(cupy.asarray, meta=empty_block("cupy", "complex128"))


def test_a_product_that_the_device_cannot_hold_is_refused(monkeypatch):
    def holds(mib):
        device = WorkerDevice("here", free_bytes=(mib - 1024) << 20, own_bytes=1 << 30)
        monkeypatch.setattr(devices, "measure_device", lambda: device)

    def attempt():
        assert td.gemm(large(), large()).shape == (10000, 10000)

    holds(5 * 1024)
    # Tasks can make the chunks themselves.
    assert td.plan(td.gemm, large(), large()).streams
    with dask.config.set({"twom-dist.inputs": "hold"}):
        for call in (attempt, lambda: td.plan(td.gemm, large(), large())):
            with raises(MemoryLimitError, "memory") as caught:
                call()
        assert "devices of 5.00 GiB have 4.00 GiB for tiles" in caught.value.problem
        assert re.search(r"use \d+ workers, or use chunks of", caught.value.remedy)
        # What the refusal names is enough, though not for all of the result.
        holds(first_number(caught.value.remedy))
        with pytest.warns(MemoryWarning, match="cannot hold all of the result"):
            attempt()
        assert td.plan(td.gemm, large(), large()).cluster.memory.kind == "device"


def test_tasks_side_by_side_are_no_more_than_tiles(monkeypatch):
    monkeypatch.setattr(client, "CPU_COUNT", 512)
    one_tile = large(chunks=10000)
    planned = td.plan(td.gemm, one_tile, one_tile)
    alone = td.plan(td.gemm, one_tile, one_tile, threads_per_worker=1)
    assert planned.memory.temporaries == alone.memory.temporaries


@pytest.mark.parametrize(
    ("error", "code", "call"),
    [
        (ArgumentError, "families", lambda x: td.gemm(x, np.ones((48, 4)))),
        (ArgumentError, "families", lambda x: td.herk(np.ones((64, 3)), x)),
        (ArgumentError, "families", lambda x: td.plan(td.gemm, x, np.ones((48, 4)))),
        (PlanError, "engine-family", lambda x: td.herk(x, engine="cpu")),
        (PlanError, "engine-family", lambda x: td.plan(td.herk, x, engine="cpu")),
    ],
)
def test_families_do_not_mix(error, code, call):
    with raises(error, code):
        call(lazy())


def test_arrays_of_two_devices_are_refused():
    def on(device):
        nothing = cupy.cuda.UnownedMemory(0, 0, None, device_id=device)
        pointer = cupy.cuda.MemoryPointer(nothing, 0)
        return cupy.ndarray((0, 0), "complex128", memptr=pointer)

    with raises(PlanError, "devices"):
        td.gemm(on(0), on(1))


class DeviceExponents:
    """Exponents on a device, whose values nobody may ask for: he would wait for it."""

    __module__ = "cupy"


def test_encoded_tiles_are_told_by_exponents_that_nobody_fetches(monkeypatch):
    made = []

    def encode(block, exponents, *args, **options):
        made.append(exponents)
        return SimpleNamespace(nbytes=block.nbytes)

    engine = SimpleNamespace(encode=encode, keep=lambda x: x)
    monkeypatch.setattr(tasks, "load_engine", lambda spec: engine)
    block = random_matrix(4, 4)
    posed = of_headers(*td.gemm.ask(block, block, num_moduli=4)[:3])
    spec = replace(posed.with_engine("cuda").spec, cache_bytes=1 << 20)
    first, other = DeviceExponents(), DeviceExponents()
    encoded_tiles.clear()
    tile = tasks.encode_tile(Row("left", [block]), 0, first, spec)
    assert tasks.encode_tile(Row("left", [block]), 0, first, spec) is tile
    assert tasks.encode_tile(Row("left", [block]), 0, other, spec) is not tile
    assert made == [first, other]
    # On the host by their values.
    x, y = np.arange(4), np.arange(4)
    tile = tasks.encode_tile(Row("left", [block]), 0, x, spec)
    assert tasks.encode_tile(Row("left", [block]), 0, y, spec) is tile
    assert tasks.encode_tile(Row("left", [block]), 0, y + 1, spec) is not tile
    encoded_tiles.clear()


@pytest.mark.skipif(
    has_device(), reason="there is a device, and this is about a machine without one"
)
def test_without_a_device_the_engine_says_so():
    with pytest.raises(EngineUnavailableError) as caught:
        get_engine("cuda")
    assert caught.value.code in ("no-device", "no-driver")
