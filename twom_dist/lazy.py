"""Products of dask arrays: aligned, planned, and left lazy."""

from dataclasses import replace
from typing import Any

import numpy as np

from .execute import current_cluster, ensure_placement
from .plan import fit_cache, fit_panels, make_plan
from .tiles import tasks
from .tiles.align import align_inner, align_result, op_chunks
from .tiles.collection import product_array
from .tiles.grid import Chunks, Grid
from .tiles.spec import ProductSpec


def as_dask(x: Any, dtype: np.dtype[Any], like: Any) -> Any:
    """Promote a NumPy array to one dask chunk per largest chunk of the others."""
    import dask.array as da

    if x is None:
        return None
    if not isinstance(x, da.Array):
        x = da.from_array(x, chunks=max(1, *map(max, like.chunks)))
    return x if x.dtype == dtype else x.astype(dtype)


def multiply(a: Any, b: Any, c: Any, spec: ProductSpec, *, empty: bool) -> Any:
    """Return ``alpha op(A) op(B) + beta C`` as a lazy dask array.

    Parameters
    ----------
    a, b, c : dask or NumPy arrays
        At least one of them a dask array; c may be None.
    spec : ProductSpec
    empty : bool
        Whether alpha or a dimension is 0, so that A and B are not read.
    """
    dtype = np.dtype(spec.dtype)
    like = next(x for x in (a, b, c) if hasattr(x, "chunks"))
    a, b, c = (as_dask(x, dtype, like) for x in (a, b, c))
    a, b = align_inner(a, b, spec.op_a, spec.op_b)
    m, k = op_chunks(a, spec.op_a)
    n = op_chunks(b, spec.op_b)[1]
    c = align_result(c, (m, n))
    if empty:
        return _without_product(c, (m, n), spec)
    cluster = current_cluster()
    grid = Grid(m, n, k, fit_panels(k, max(m), max(n), dtype.itemsize, cluster))
    spec = replace(spec, cache_bytes=fit_cache(cluster))
    make_plan(grid, spec, cluster)  # refuses here what no worker can hold
    ensure_placement()
    return product_array(a, b, c, grid, spec)


def _without_product(c: Any, chunks: tuple[Chunks, Chunks], spec: ProductSpec) -> Any:
    """Return ``beta C``, or zeros."""
    import dask.array as da

    dtype = np.dtype(spec.dtype)
    if c is None:
        shape = tuple(map(sum, chunks))
        return da.zeros(shape, dtype=dtype, chunks=chunks)
    return c.map_blocks(_scaled_block, spec, dtype=dtype)


def _scaled_block(block: Any, spec: ProductSpec) -> Any:
    return tasks.scale_and_add(None, spec, block)
