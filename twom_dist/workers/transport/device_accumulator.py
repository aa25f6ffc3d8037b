"""Accumulators on a device: how dask measures, spills and sends them.

This module is imported after distributed, and by each process that receives an
accumulator, so that it can read the accumulator.
"""

import sys
from typing import Any

from distributed.protocol import dask_deserialize, dask_serialize
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize
from distributed.protocol.serialize import ObjectDictSerializer

from ...tiles.accumulator import Accumulator


class DeviceAccumulator(Accumulator):
    """An accumulator whose arrays travel as device arrays do, not by pickle."""


def _register(family: str, serialize: Any, deserialize: Any) -> None:
    """Register the class with one of distributed's families, array by array."""
    fields = ObjectDictSerializer(family)

    def pack(x: DeviceAccumulator) -> tuple[dict[str, Any], list[Any]]:
        fill = None if x.fill is None else vars(x.fill)
        packed: tuple[dict[str, Any], list[Any]] = fields.serialize(
            {"values": x.values, "kind": type(x.fill), "fill": fill}
        )
        return packed

    def unpack(header: dict[str, Any], frames: list[Any]) -> DeviceAccumulator:
        found = fields.deserialize(header, frames)
        fill, make = found["fill"], found["kind"]
        fill = None if fill is None else make(**fill)
        return DeviceAccumulator(found["values"], fill)

    serialize.register(DeviceAccumulator, pack)
    deserialize.register(DeviceAccumulator, unpack)


_register("dask", dask_serialize, dask_deserialize)
_register("cuda", cuda_serialize, cuda_deserialize)
if "dask_cuda" in sys.modules:
    from dask_cuda.is_device_object import is_device_object

    is_device_object.register(DeviceAccumulator, lambda _: True)
