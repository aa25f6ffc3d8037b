"""The choice between inputs that are held and inputs that are made again.

Inputs are made again if tasks only read uncompressed chunks of local files, and if
products take far longer than reading. Any other function of a graph may be slow, or
return other values the next time.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from operator import getitem
from typing import Any

import numpy as np
from dask.utils import format_bytes

from ..config import choice_setting
from ..plan import Plan
from ..plan.record import describe_reads
from ..plan.sweeps import count_reads
from ..tiles.blocks import cast_block
from ..tiles.dask.streamed import keeps_rows
from ..tiles.dask.task_spec import DataNode, NestedContainer, Task, execute_subgraph
from .sources import ChunkSource, Inputs

# Operations on int8 for each byte that is read again. By the rates of a core of Zen 4
# reads take a tenth of the products' time
# (docs/decisions/0028-inputs-are-made-again.md).
_FEWEST_OPERATIONS = 3500
# Peaks below some bytes are no reason to read again, nor are those that are not far
# larger than the other way's.
_FEW_BYTES, _FAR_LESS = 2**27, 1.5


def weigh(
    held: Plan, inputs: Inputs, stream: Callable[[], Plan], explain: bool = False
) -> Plan:
    """Return the plan that holds inputs, or that makes them again where that is cheap.

    `explain`: whether the plan is for a reader, who is told of both.
    """
    most = held.memory.total
    may = choice_setting("inputs") == "auto" and most >= _FEW_BYTES
    may &= held.spec.engine != "cuda"
    if held.streams or not (may or explain) or inputs.sources is None:
        return held
    made = stream()
    if made.memory.total * _FAR_LESS > most or not made.fits(leaving=False):
        return held
    takes = may and _takes_little(made, inputs)
    plan, other = (made, held) if takes else (held, made)
    note = (
        f"with twom-dist.inputs set to '{'hold' if takes else 'stream'}' the peak is "
        f"{format_bytes(other.memory.total)}. Inputs that are made again are "
        f"{describe_reads(made)}, and {_count_looks(made)} times to be scaled"
    )
    return replace(plan, notes=(*plan.notes, note))


def _count_looks(plan: Plan) -> int:
    """Return how often inputs are made before they are multiplied."""
    spec = plan.spec
    if spec.native or spec.exact:
        return 1  # for their fingerprints
    return 2 - keeps_rows(plan.grid, spec) + spec.data_driven


def _takes_little(plan: Plan, inputs: Inputs) -> bool:
    """Tell whether making inputs again takes little time beside the products."""
    assert inputs.sources is not None
    nbytes, each = 0.0, count_reads(plan.grid, plan.spec)
    both = zip(inputs.sources, (inputs.a, inputs.b), each, strict=True)
    for source, array, reads in [*both][: plan.spec.routine.matrices]:
        if not only_reads(source, array):
            return False
        nbytes += array.nbytes * (_count_looks(plan) + reads - 1)
    return plan.int8_operations >= _FEWEST_OPERATIONS * nbytes


def only_reads(source: ChunkSource, array: Any) -> bool:
    """Tell whether chunks are read from local files that are not compressed."""
    from dask.array import chunk, core

    readers = core.getter, core.getter_nofancy, core.getter_inline
    # To move entries, and to cast them, costs little as well.
    moves = core.concatenate_shaped, np.transpose, getitem, chunk.astype, cast_block
    known = *readers, *moves
    entries = prod(map(max, array.chunks))
    for graph in source.graphs.values():
        stored = False
        for x in _list_parts(graph):
            if isinstance(x, Task):
                own = x.func.func if isinstance(x.func, partial) else x.func
                if own not in known:
                    return False
            elif hasattr(x, "shape") and not isinstance(x, np.generic | np.dtype):
                stored = True
                # A stored chunk is read whole.
                if not _is_plain(x) or prod(x.chunks or ()) > entries:
                    return False
        if not stored:
            return False
    return True


def _list_parts(x: Any) -> Iterator[Any]:
    """List the tasks of a graph, those inside of others as well, and what they take."""
    if isinstance(x, DataNode):
        yield from _list_parts(x.value)
    elif isinstance(x, Task):
        if x.func is not execute_subgraph and not isinstance(x, NestedContainer):
            yield x
        yield from _list_parts([x.kwargs, *x.args])
    elif isinstance(x, Mapping | list):
        for value in x.values() if isinstance(x, Mapping) else x:
            yield from _list_parts(value)
    else:
        yield x


def _is_plain(x: Any) -> bool:
    """Tell whether an array is in a local file, as it is in memory."""
    if getattr(x, "compressors", None) or getattr(x, "compression", None):
        return False
    package = type(x).__module__.partition(".")[0]
    if package == "zarr":
        # dask opens a path by fsspec.
        local = "file" in getattr(getattr(x.store, "fs", None), "protocol", ())
        return local or type(x.store).__name__ == "LocalStore"
    return package == "h5py" and x.file.driver != "ros3"
