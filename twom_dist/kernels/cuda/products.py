"""The int8 products of a tile in one launch: sums reduced where they are made."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array
from . import tables
from .encoded import CudaEncoded
from .hopper import ROW_GROUP
from .launch import Device
from .sources import module_for

# Of products.cu: rows and columns of a cluster of two blocks, threads of each, bytes
# along k of a tile.
_CLUSTER_ROWS, _COLUMNS, _THREADS, _TILE_K = 256, 256, 384, 128


def multiply_fused(
    device: Device,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    own: Sequence[int],
    add: bool,
) -> None:
    """Multiply the products `own` into their residues, or add to what is there."""
    m, n, k_padded = left.rows, right.rows, left.planes.shape[2]
    jobs = _tabulate(
        tuple(
            (
                left.order[system.products[q].left],
                right.order[system.products[q].right],
                q,
            )
            for q in own
        )
    )
    args = (
        *(device.map_planes(left.planes), device.map_planes(right.planes)),
        *(np.int32(x.planes.shape[1] // ROW_GROUP) for x in (left, right)),
        np.int32(-(-k_padded // _TILE_K)),
        *(device.constant(jobs), np.int32(len(jobs))),
        *(device.constant(tables.requantise_table(system)), np.int64(m), np.int64(n)),
        *(residues, np.int64(residues.strides[1]), np.int64(residues.strides[0])),
        np.int32(add),
    )
    clusters = len(jobs) * -(-m // _CLUSTER_ROWS) * -(-n // _COLUMNS)
    grid = 2 * min(clusters, device.multiprocessors() // 2)
    device.launch(
        module_for("products"), "products", (grid, 1, 1), (_THREADS, 1, 1), args
    )


@cache
def _tabulate(jobs: tuple[tuple[int, int, int], ...]) -> Array:
    """Tabulate planes and product of each job as products.cu reads them."""
    return np.array([(*job, 0) for job in jobs], np.int32)
