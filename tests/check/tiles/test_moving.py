"""Accumulators on a device: arrays to whoever weighs, spills or sends them."""

import sys
from dataclasses import astuple

import numpy as np
import pytest
from distributed.protocol import deserialize, serialize
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

from twom_dist.kernels.cuda.fill import CudaFill
from twom_dist.tiles import tasks
from twom_dist.tiles.accumulator import Accumulator
from twom_dist.tiles.moving import DeviceAccumulator


class OnDevice(np.ndarray):
    """An array that counts as one of CuPy's, and that pickle may not touch."""

    __module__ = "cupy"

    def __reduce_ex__(self, protocol):
        raise AssertionError("pickled")


@pytest.fixture
def on_device(monkeypatch):
    """Let the cuda family take such arrays by reference."""
    for registry, function in (
        (cuda_serialize, lambda x: ({}, [x])),
        (cuda_deserialize, lambda header, frames: frames[0]),
    ):
        lookup = {**registry._lookup, OnDevice: function}
        monkeypatch.setattr(registry, "_lookup", lookup)


def accumulator(kind=np.ndarray):
    values = np.arange(24, dtype=np.int8).reshape(2, 3, 4)
    marks, rows = np.eye(3, 4, dtype=np.uint8), np.arange(3, dtype=np.int32)
    fill = CudaFill(*(x.view(kind) for x in (marks, rows, rows[:2])))
    return DeviceAccumulator(values.view(kind), fill)


def arrays(x):
    return [x.values, *astuple(x.fill)]


def test_arrays_are_frames_of_their_own_on_the_host():
    given = accumulator()
    header, frames = serialize(given, serializers=["dask", "pickle"])
    assert header["serializer"] == "dask"
    assert [np.asarray(x).nbytes for x in frames[:1]] == [24]
    assert np.shares_memory(np.asarray(frames[0]), given.values)
    found = deserialize(header, frames)
    assert type(found) is DeviceAccumulator
    for x, y in zip(arrays(found), arrays(given), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.usefixtures("on_device")
def test_arrays_of_a_device_stay_there():
    given = accumulator(OnDevice)
    header, frames = serialize(given, serializers=["cuda", "dask", "pickle"])
    assert header["serializer"] == "cuda"
    for x in (given.values, given.fill.marks):
        assert any(frame is x for frame in frames)
    found = deserialize(header, frames)
    assert found.values is given.values
    assert found.fill.marks is given.fill.marks


@pytest.mark.parametrize("family", ["dask", "pickle"])
def test_what_has_no_fill(family):
    given = DeviceAccumulator(np.arange(3), None)
    found = deserialize(*serialize(given, serializers=[family]))
    assert type(found) is DeviceAccumulator
    assert found.fill is None
    np.testing.assert_array_equal(found.values, given.values)


def test_accumulators_of_a_device_are_such():
    values = np.zeros((2, 3), np.int8)
    assert type(tasks._accumulator(values, None)) is Accumulator
    found = tasks._accumulator(values.view(OnDevice), None)
    assert type(found) is DeviceAccumulator
    marks = np.zeros(1000, np.uint8)
    assert sys.getsizeof(Accumulator(values, CudaFill(marks, marks, marks))) > 1000
