"""The cost of making the chunks of an input again, where it is known.

A chunk is known to be cheap if its part of the graph only draws, reads arrays of local
files, and computes entry by entry, by functions of NumPy and dask that are listed here.
Whatever else a graph calls may take a second, or answer otherwise the next time.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from dask.utils import format_bytes

from ..config import choice_setting
from ..plan import Plan
from ..plan.record import describe_reads
from ..plan.sweeps import count_reads
from ..tiles.dask.streamed import keeps_rows
from ..tiles.dask.task_spec import DataNode, NestedContainer, Task, execute_subgraph
from .sources import WAYS, ChunkSource, Inputs

# Seconds, on a core of an AMD EPYC of Zen 4 that others used as well: an entry that is
# drawn, a byte that is read and decompressed, or read as it is stored, and a byte of a
# chunk for each function of its entries (docs/decisions/0028-inputs-are-made-again.md).
_DRAW, _DECOMPRESS, _READ, _COMPUTE = 16e-9, 1.5e-9, 0.5e-9, 0.4e-9

_READERS = {"getter", "getter_nofancy", "getter_inline"}
_KNOWN = {
    "_operator": {"add", "sub", "mul", "truediv", "neg", "pos", "getitem"},
    "numpy": {"transpose", "real", "imag"},
    "dask.array.core": {*_READERS, "concatenate_shaped"},
    "dask.array.chunk": {"astype", "getitem"},
    "dask.array.random": {"_apply_random", "_apply_random_func"},
    "twom_dist.tiles.blocks": {"cast_block"},
}


def seconds_to_make(source: ChunkSource, array: Any) -> float | None:
    """Return how long it takes to make all chunks once; None if that is not known."""
    total = 0.0
    for (i, j), graph in source.graphs.items():
        entries = array.chunks[0][i] * array.chunks[1][j]
        found = _seconds_of_chunk(graph, entries * array.dtype.itemsize)
        if found is None:
            return None
        total += found
    return total


def _seconds_of_chunk(graph: Mapping[Any, Any], nbytes: int) -> float | None:
    parts = [*_list_parts(graph)]
    stored = [x for x in parts if _is_stored(x)]
    regions = [x for x in parts if _is_region(x)]
    total = 0.0
    for task in (x for x in parts if isinstance(x, Task)):
        function = _known_name(task.func)
        if function is None:
            return None
        if function.startswith("_apply_random"):
            shapes = filter(_is_shape, task.args)
            total += _DRAW * max(map(prod, shapes), default=0)
        elif function not in _READERS:
            total += _COMPUTE * nbytes
    for array in stored:
        if not _is_local(array) or len({*map(id, stored)}) > 1:
            return None
        read = sum(_bytes_read(array, x) for x in regions if len(x) == len(array.shape))
        total += read * (_DECOMPRESS if _is_compressed(array) else _READ)
    return total


def _list_parts(x: Any) -> Iterator[Any]:
    """List the tasks of a graph, those inside of others as well, and what they take."""
    if isinstance(x, DataNode):
        yield from _list_parts(x.value)
    elif isinstance(x, Mapping):
        for value in x.values():
            yield from _list_parts(value)
    elif isinstance(x, Task):
        if x.func is not execute_subgraph and not isinstance(x, NestedContainer):
            yield x
        yield from _list_parts(x.kwargs)
        for value in x.args:
            yield from _list_parts(value)
    elif isinstance(x, list):
        for value in x:
            yield from _list_parts(value)
    else:
        yield x


def _known_name(function: Any) -> str | None:
    """Return the name of a function that is known to be cheap, and to give the same."""
    while isinstance(function, partial):
        function = function.func
    name, module = (getattr(function, x, "") for x in ("__name__", "__module__"))
    if isinstance(function, np.ufunc):
        known = function.signature is None and getattr(np, name, None) is function
        return name if known else None
    if module == "dask.array.wrap":
        return name if name in ("ones_like", "zeros_like", "full_like") else None
    found = getattr(sys.modules.get(module), name, None)
    return name if found is function and name in _KNOWN.get(module, ()) else None


def _is_shape(x: Any) -> bool:
    return isinstance(x, tuple) and all(isinstance(y, int) for y in x)


def _is_region(x: Any) -> bool:
    return isinstance(x, tuple) and len(x) > 0 and all(isinstance(y, slice) for y in x)


def _is_stored(x: Any) -> bool:
    own = isinstance(x, np.ndarray | np.generic | np.dtype | type | Task)
    return not own and hasattr(x, "shape") and hasattr(x, "dtype")


def _is_local(x: Any) -> bool:
    """Tell whether a stored array is in files of this machine, or in memory."""
    package = type(x).__module__.partition(".")[0]
    if package == "zarr":
        # dask opens a path by fsspec.
        away = "file" not in getattr(getattr(x.store, "fs", None), "protocol", ())
        return not away or type(x.store).__name__ in ("LocalStore", "MemoryStore")
    return package == "h5py" and x.file.driver != "ros3"


def _is_compressed(x: Any) -> bool:
    return bool(getattr(x, "compressors", None) or getattr(x, "compression", None))


def _bytes_read(x: Any, region: tuple[slice, ...]) -> int:
    """Return the bytes of all stored chunks that a region touches."""
    sizes = []
    chunks = x.chunks or (1,) * len(x.shape)
    for own, size, chunk in zip(region, x.shape, chunks, strict=True):
        start, stop, _ = own.indices(size)
        sizes.append((-(-stop // chunk) - start // chunk) * chunk)
    return int(prod(sizes) * x.dtype.itemsize)


# Operations on int8 that a thread does in a second (Zen 4, tiles of 512), and seconds
# for a byte of an input that is encoded.
_OPERATIONS, _ENCODE = 5e11, 0.4e-9
# Making inputs again may take so much of the products' time. Peaks below some bytes are
# no reason to do so, nor are those that are not far larger than the other way's.
_MOST_SHARE, _FEW_BYTES, _FAR_LESS = 0.1, 2**27, 1.5


def weigh(
    held: Plan, inputs: Inputs, stream: Callable[[], Plan], explain: bool = False
) -> Plan:
    """Return the plan that holds inputs, or that makes them again where that is cheap.

    `explain`: whether the plan is for a reader, who is told of both.
    """
    most = held.memory.total
    may = choice_setting("inputs", (*WAYS,)) == "auto" and most >= _FEW_BYTES
    may &= held.spec.engine != "cuda"
    if held.streams or not (may or explain) or inputs.sources is None:
        return held
    made = stream()
    if made.memory.total * _FAR_LESS > most or not made.fits(leaving=False):
        return held
    share = _share_of_making(made, inputs)
    takes = may and share is not None and share <= _MOST_SHARE
    other = held if takes else made
    cost = "takes a time that is not known"
    if share is not None:
        cost = f"is expected to take {share:.0%} of the time of the products"
    note = (
        f"with twom-dist.inputs set to '{'hold' if takes else 'stream'}' the peak is "
        f"{format_bytes(other.memory.total)}. Making inputs again {cost}: they are "
        f"{describe_reads(made)}, and {_count_looks(made)} times to be scaled"
    )
    plan = made if takes else held
    return replace(plan, notes=(*plan.notes, note))


def _count_looks(plan: Plan) -> int:
    """Return how often inputs are made before they are multiplied."""
    spec = plan.spec
    if spec.native or spec.exact:
        return 1  # for their fingerprints
    return 2 - keeps_rows(plan.grid, spec) + spec.data_driven


def _share_of_making(plan: Plan, inputs: Inputs) -> float | None:
    """Return the time for making inputs again, as a share of that of the products."""
    assert inputs.sources is not None
    total, each = 0.0, count_reads(plan.grid, plan.spec)
    both = zip(inputs.sources, (inputs.a, inputs.b), each, strict=True)
    for source, array, reads in [*both][: plan.spec.routine.matrices]:
        seconds = seconds_to_make(source, array)
        if seconds is None:
            return None
        total += seconds * (_count_looks(plan) + reads - 1)
        total += _ENCODE * array.nbytes * (reads - 1)
    products = plan.int8_operations / _OPERATIONS
    return total / products if products else None
