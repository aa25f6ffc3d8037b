"""The grid of workers, m x n x k: which worker multiplies which cells and tiles.

A layer of workers has a share of k, and all cells, which a grid or the map of a
triangle assigns to its workers. With L layers each tile of A and B goes to fewer
workers, and L - 1 layers send the residues of their sums, a byte for each product and
entry.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ..tiles.dask.placement.grids import (
    LITTLE,
    choose_grid,
    layer_slots,
    summa_bytes,
    with_nodes,
)
from ..tiles.dask.placement.triangle import TriangleMap, triangle_map
from ..tiles.grid import Chunks
from ..tiles.spec import SIDES, Spec
from .cluster import Cluster
from .footprint import Placement

# Times the least traffic for which fewer layers are taken: with 1.08 `herk` of 16 x 16
# tiles moved 1.41 times the bound on 64 workers, and 1.30 so.
LITTLE_MORE = 1.03


class Split(NamedTuple):
    """A share of k for each layer of workers."""

    layers: int
    parts: int  # of a layer's share, side by side on the threads of a worker
    placement: Placement  # the workers of a layer
    work: float  # tiles along k, of all cells, for each thread of the busiest worker
    moved: int  # bytes, if every input tile starts on a worker that needs it
    between: int  # of these between hosts, if a tile that has come to one goes on there


def choose_splits(
    spec: Spec,
    chunks: tuple[Chunks, Chunks, Chunks],
    cluster: Cluster,
    *,
    streams: bool = False,
) -> list[Split]:
    """List the possible splits, the best one first, then by work and traffic.

    `streams`: whether tasks read the inputs themselves, so that only residues move. Of
    those with little work and traffic the best has fewest layers, tasks and residues.
    """
    found = [*_list_splits(spec, chunks, cluster, streams)]
    work = LITTLE * min(x.work for x in found)
    good = [x for x in found if x.work <= work]
    moved = LITTLE_MORE * min(x.moved for x in good)
    best = min((x for x in good if x.moved <= moved), key=lambda x: x.layers)
    found.sort(key=lambda x: (x is not best, x.work, x.moved))
    return found


def _list_splits(
    spec: Spec, chunks: tuple[Chunks, Chunks, Chunks], cluster: Cluster, streams: bool
) -> Iterator[Split]:
    m, n, k = chunks
    residues = _residue_bytes(spec, m, n)
    # A native product rounds its sums, and keeps to one order.
    most = 1 if spec.native or spec.empty else len(k)
    seen = set()
    for slots in range(cluster.workers, 0, -1):
        tiles = -(-len(k) // min(most, cluster.workers // slots))
        # No more layers than have as few tiles.
        layers = -(-len(k) // tiles)
        if layers in seen:
            continue
        seen.add(layers)
        own = layer_slots(cluster.workers, layers, cluster.node)
        node = min(cluster.node, own) % own
        cells, placement, moved, between = _place(spec, chunks, own, node)
        threads = cluster.threads
        side_by_side = min(threads, max(1.0, cells * tiles))
        parts = 1 if most == 1 else max(1, min(tiles, int(threads // max(1, cells))))
        work = cells * tiles / side_by_side
        moved = (layers - 1) * residues + (0 if streams else moved)
        # Layers of one host add up their sums there.
        apart = -(-layers // max(1, cluster.node // own)) - 1 if cluster.node else 0
        between = apart * residues + (0 if streams else between)
        yield Split(layers, parts, placement, work, moved, between)


def _place(
    spec: Spec, chunks: tuple[Chunks, Chunks, Chunks], slots: int, node: int
) -> tuple[float, Placement, int, int]:
    """Return the cells of the busiest worker, their placement, and the bytes moved.

    Between workers, and between nodes of so many; `node`: 0 if there is but one.
    """
    m, n, k = chunks
    mt, nt = len(m), len(n)
    left, right = (0 if spec.empty else spec.tile_dtype(x).itemsize for x in SIDES)
    a_bytes, b_bytes = sum(m) * sum(k) * left, sum(k) * sum(n) * right
    if spec.routine.triangle:
        triangle = triangle_map(nt, slots, node)
        mean = spec.routine.count_cells(mt, nt) / slots
        moved, between = (
            (sum(needed_rows(triangle, n, size)) - sum(n))
            * (a_bytes * spec.routine.matrices)
            // max(sum(n), 1)
            for size in (1, node or slots)
        )
        return triangle.balance * mean, triangle, moved, between
    grid = choose_grid(slots, mt, nt, a_bytes, b_bytes)
    grid = with_nodes(grid, node, slots, mt, nt)
    moved = summa_bytes(grid, mt, nt, a_bytes, b_bytes)
    between = summa_bytes(grid.nodes, mt, nt, a_bytes, b_bytes) if node else 0
    return grid.largest_load(mt, nt), grid, moved, between


def needed_rows(placed: TriangleMap, n: Chunks, size: int = 1) -> list[int]:
    """List the rows of op(A) that workers of a triangle need, each `size` together."""
    rows: dict[int, set[int]] = defaultdict(set)
    for slot in set(placed.slots.values()):
        rows[slot // size] |= placed.rows_of(slot)
    return [sum(n[i] for i in own) for own in rows.values()]


def _residue_bytes(spec: Spec, m: Chunks, n: Chunks) -> int:
    """Return the bytes of the sums of a layer, which are those of whole tiles."""
    if spec.native or spec.empty:
        return 0
    entries, diagonal = sum(m) * sum(n), sum(size * size for size in n)
    if spec.routine.triangle:
        below = (entries - diagonal) // 2
        entries = diagonal + below * (2 if spec.routine.sums else 1)
    return entries * spec.system.entry_bytes
