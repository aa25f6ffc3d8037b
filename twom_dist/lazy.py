"""Products of dask arrays: aligned, planned, and left lazy."""

from dataclasses import replace
from typing import Any

import numpy as np

from .checks import is_dask
from .execute import current_cluster, ensure_placement
from .kernels.family import Family, convert, empty_block, family_of
from .plan import (
    LARGEST_TILE,
    Cluster,
    fit_cache,
    fit_panels,
    make_plan,
    make_update_plan,
)
from .tiles.align import align_inner, align_result, op_chunks
from .tiles.collection import product_array
from .tiles.grid import Chunks, Grid
from .tiles.rank_k import RankSpec
from .tiles.spec import ProductSpec, load_engine


def as_dask(x: Any, dtype: np.dtype[Any], chunks: Any) -> Any:
    """Promote a NumPy array to a dask array with the given chunks."""
    if not is_dask(x):
        import dask.array as da

        x = da.from_array(x, chunks=chunks)
    if x.dtype == dtype:
        return x
    # dask's own astype asks a block what it becomes, which takes a device for CuPy's.
    meta = empty_block(family_of(x._meta), dtype)
    return x.map_blocks(_cast, dtype, dtype=dtype, meta=meta)


def _cast(block: Any, dtype: np.dtype[Any]) -> Any:
    return block.astype(dtype)


def _as_operands(
    a: Any, b: Any, c: Any, spec: ProductSpec, dtype: np.dtype[Any]
) -> tuple[Any, Any]:
    """Make A and B dask arrays: along k cut like the other, else by large tiles."""
    tile = max(1, LARGEST_TILE)
    if c is not None and hasattr(c, "chunks"):
        tile = max(1, *map(max, c.chunks))
    chunks = {
        name: op_chunks(x, op)
        for name, x, op in (("a", a, spec.op_a), ("b", b, spec.op_b))
        if hasattr(x, "chunks")
    }
    k = chunks["a"][1] if "a" in chunks else chunks.get("b", (tile,))[0]
    a_chunks = (tile, k) if spec.op_a == "N" else (k, tile)
    b_chunks = (k, tile) if spec.op_b == "N" else (tile, k)
    return as_dask(a, dtype, a_chunks), as_dask(b, dtype, b_chunks)


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
    a, b = _as_operands(a, b, c, spec, dtype)
    a, b = align_inner(a, b, spec.op_a, spec.op_b)
    m, k = op_chunks(a, spec.op_a)
    n = op_chunks(b, spec.op_b)[1]
    c = None if c is None else align_result(as_dask(c, dtype, (m, n)), (m, n))
    if empty:
        return _without_product(c, (m, n), spec, family_of(a._meta))
    cluster = _cluster_for(spec)
    grid = Grid(m, n, k, fit_panels(k, max(m), max(n), dtype.itemsize, cluster))
    spec = replace(spec, cache_bytes=fit_cache(cluster), lazy=True)
    # Refuses here what no worker can hold.
    plan = make_plan(grid, spec, cluster)
    spec = replace(spec, cache_bytes=plan.cache_bytes)
    ensure_placement()
    return product_array(a, b, c, grid, spec)


def update(a: Any, b: Any, c: Any, spec: RankSpec, *, empty: bool) -> Any:
    """Return a rank-k or rank-2k update as a lazy dask array.

    Parameters
    ----------
    a, b, c : dask or NumPy arrays
        At least one of them a dask array; b is None for rank-k updates.
    spec : RankSpec
    empty : bool
        Whether alpha or a dimension is 0, so that A and B are not read.
    """
    product = spec.product
    dtype = np.dtype(product.dtype)
    like = next((x for x in (a, b) if x is not None and hasattr(x, "chunks")), None)
    chunks = (LARGEST_TILE, LARGEST_TILE) if like is None else like.chunks
    a = as_dask(a, dtype, chunks)
    b = a if b is None else as_dask(b, dtype, chunks)
    if b.chunks != a.chunks:
        b = b.rechunk(a.chunks, method="tasks")
    n, k = op_chunks(a, product.op_a)
    c = None if c is None else align_result(as_dask(c, dtype, (n, n)), (n, n))
    if empty:
        if c is None:
            return _without_product(None, (n, n), product, family_of(a._meta))
        grid = Grid(n, n, k, ((0, len(k)),))
        return product_array(c, c, c, grid, replace(spec, empty=True))
    cluster = _cluster_for(product)
    grid = Grid(n, n, k, fit_panels(k, max(n), max(n), dtype.itemsize, cluster))
    product = replace(product, cache_bytes=fit_cache(cluster), lazy=True)
    plan = make_update_plan(grid, replace(spec, product=product), cluster)
    product = replace(product, cache_bytes=plan.cache_bytes)
    spec = replace(spec, product=product)
    ensure_placement()
    return product_array(a, b, c, grid, spec)


def _cluster_for(spec: ProductSpec) -> Cluster:
    """Describe the workers; what dask limits is the host's memory, not a device's."""
    cluster = current_cluster()
    return replace(cluster, memory=None) if spec.engine == "cuda" else cluster


def _without_product(
    c: Any, chunks: tuple[Chunks, Chunks], spec: ProductSpec, family: Family
) -> Any:
    """Return ``beta C``, or zeros."""
    import dask.array as da

    dtype = np.dtype(spec.dtype)
    if c is None:
        shape = tuple(map(sum, chunks))
        zeros = da.zeros(shape, dtype=dtype, chunks=chunks)
        if family == "numpy":
            return zeros
        meta = empty_block(family, dtype)
        return zeros.map_blocks(convert, family, dtype=dtype, meta=meta)
    return c.map_blocks(_scaled_block, spec, dtype=dtype, meta=c._meta)


def _scaled_block(block: Any, spec: ProductSpec) -> Any:
    engine = load_engine(spec)
    with engine.task():
        return engine.scale_and_add(None, 0, spec.beta, block, spec.dtype)
