"""The int8 products of a tile, by kernels that also reduce the sums.

One launch takes as many squares of all products as fit `tuning.LAUNCH_OPERATIONS`. A
launch has whole waves of squares, so that no multiprocessor is idle at its end.
"""

from functools import cache
from itertools import product as pairs_of
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array, Uplo
from ..limits import Shape
from . import tuning
from .cublas import LARGEST_K
from .device import CudaDevice
from .hopper import LINE, ROW_GROUP
from .launch import triangle_arg
from .planes import PlaneProducts
from .sources import TILE_FAMILY, Module, module_for
from .tables import requantise_table


class Squares(NamedTuple):
    """The squares of residues that a kernel makes.

    `resident`: squares that a multiprocessor makes at a time; `blocks` share one, and
    each asks for `shared` bytes.
    """

    kind: tuning.Products
    module: Module
    side: int
    threads: int
    resident: float
    blocks: int = 1
    shared: int = 0


# Stages of ring.cuh, which are aligned besides, and those of 256 x 128 of steps.cuh.
_RING, _STAGES = 4 * 3 * 128 * 128 + 1024, 3 * (256 + 128) * 64
_MMA = [module_for("products_mma", side=side) for side in (256, 128, 64)]
SQUARES: dict[tuning.Products, list[Squares]] = {
    "wgmma": [Squares("wgmma", module_for("products"), 256, 384, 0.5, 2, _RING)],
    "mma256": [Squares("mma256", _MMA[0], 256, 256, 0.5, 2, _STAGES)],
    "mma": [Squares("mma", _MMA[1], 128, 128, 2), Squares("mma", _MMA[2], 64, 64, 4)],
}
# The driver takes as many threads as it wants.
for _name, _kind in zip(tuning.TILES, ("int8", "float16"), strict=True):
    SQUARES[_name] = [
        Squares(_name, module_for(TILE_FAMILY, _kind, side=side), side, 1, share)
        for side, share in ((256, 0.5), (128, 1.0))
    ]
# Strides that cuTile takes are int32, and for TMA multiples of 16.
_FARTHEST = (1 << 31) - 16


def choose_squares(
    device: CudaDevice,
    shape: Shape,
    triangle: Uplo,
    products: int,
    samples: bool = False,
) -> Squares:
    """Choose the squares that take the least time: waves of blocks, and their times.

    Small ones where larger ones would be empty for the most part, or too few.
    """
    tuned, (m, n, k) = tuning.tuning_for(device.capability()), shape
    kernels = tuned.of_samples if samples else tuned.products
    multiprocessors = device.multiprocessors()

    def time(own: Squares) -> float:
        squares = products * count_squares(m, n, triangle, own.side)
        waves = -(-squares // (multiprocessors * min(1, own.resident)))
        length = k + tuning.ALONE_K * (own.kind == "mma256")
        return waves * tuning.BLOCK_TIMES[own.kind, own.side] * length

    return min((own for name in kernels for own in SQUARES[name]), key=time)


def multiply_fused(device: CudaDevice, task: PlaneProducts, triangle: Uplo) -> None:
    """Multiply a triangle of the products `own`; residues are of these or of all."""
    left, right, system, residues, before, own = task
    places = range(len(own)) if len(residues) == len(own) else own
    shape, planes = (left.rows, right.rows), (left.planes, right.planes)
    jobs = _tabulate(system, own, (*places,), left.order, right.order)
    given = *planes, jobs, requantise_table(system), shape, residues, before
    launch_products(device, Multiplication(*given, triangle, prod(left.stack)))


class Multiplication(NamedTuple):
    """Planes (planes, padded rows, padded k), and the tables of jobs that they are for.

    `stack`: how many matrices lie one below the other in each plane.
    """

    x: Array
    y: Array
    jobs: Array
    table: Array
    shape: tuple[int, int]
    residues: Array
    before: Array | None
    triangle: Uplo = "full"
    stack: int = 1


def launch_products(device: CudaDevice, own: Multiplication) -> None:
    """Launch one of our kernels."""
    x, y, jobs, table, shape, residues, before, triangle, count = own
    k, products = x.shape[2], count * len(jobs)
    squares = choose_squares(device, (*shape, k), triangle, products)
    if squares.kind in tuning.TILES:
        return launch_tiles(device, squares, own)
    rows = x.shape[1] // count, y.shape[1] // count
    total = products * count_squares(*shape, triangle, squares.side)
    given: tuple[Any, ...] = x, y, *rows, k
    if squares.kind == "wgmma":
        starts = device.addresses((x, y), device.number())
        planes = map(device.map_planes, starts, (x.shape, y.shape))
        groups = (t // ROW_GROUP for t in rows)
        given = *planes, *groups, k // LINE
    args = (
        *(*given, device.constant(jobs), len(jobs)),
        *(device.constant(table), *shape, before, residues),
        *(residues.strides[-2], residues.strides[0], triangle_arg(triangle), count),
    )
    launch_squares(device, squares, args, k, range(total))


def launch_tiles(device: CudaDevice, squares: Squares, own: Multiplication) -> None:
    """Launch products_tile.py, once for each 2^16 along k.

    Planes or residues that lie too far apart are made one by one.
    """
    given, jobs, table = (own.x, own.y, own.residues), own.jobs, own.table
    shape, count, adds = own.shape, own.stack, own.before is not None
    x, y, out = (t.reshape(len(t), count, -1, t.shape[-1]) for t in given)
    old = out if own.before is None else own.before.reshape(out.shape)
    most = max(len(t) * count for t in given)
    if most > 1 and max(t.strides[0] for t in (x, y, out)) > _FARTHEST:
        for c, (i, j, q, entry) in pairs_of(range(count), jobs.tolist()):
            places = (x, i), (y, j), (out, q), (old, q)
            a, b, to, added = (t[at : at + 1, c : c + 1] for t, at in places)
            one = a, b, _tabulate_one(entry), table, shape, to, added if adds else None
            launch_tiles(device, squares, Multiplication(*one, own.triangle))
        return
    sides = (-(-t // squares.side) for t in shape)
    numbers = triangle_arg(own.triangle), *sides, len(jobs)
    tables = [(device.constant(t), t.size, 1) for t in (jobs, table)]
    total = count * len(jobs) * count_squares(*shape, own.triangle, squares.side)
    for start in range(0, x.shape[3], LARGEST_K):
        adds = adds or start > 0
        planes = (_describe(t[..., start : start + LARGEST_K]) for t in (x, y))
        added = old if start == 0 else out
        args = *planes, *tables, _describe(added), _describe(out), adds, *numbers
        launch_squares(device, squares, args, min(LARGEST_K, x.shape[3]), range(total))


@cache
def _tabulate_one(entry: int) -> Array:
    return np.array([(0, 0, 0, entry)], np.int32)


def _describe(x: Array) -> tuple[Any, ...]:
    """Describe bytes as cuTile takes them: address, sizes, strides.

    A stride that is too long is that of an axis of length 1.
    """
    return x, *x.shape, *(min(t, _FARTHEST) for t in x.strides)


def launch_squares(
    device: CudaDevice, squares: Squares, args: tuple[Any, ...], k: int, own: range
) -> None:
    """Launch some squares, or pieces of them, one after the other: whole waves."""
    wave = max(1, int(device.multiprocessors() * squares.resident))
    # Squares that a launch may take.
    each = 2 * squares.side**2 * k * squares.resident
    step = wave * max(1, int(tuning.LAUNCH_OPERATIONS[squares.kind] / each))
    for first in own[::step]:
        end = min(own.stop, first + step)
        count, part = end - first, [first]
        if squares.kind == "wgmma":
            count, part = min(count, wave), [first, end]
        sizes = (squares.blocks * count, 1, 1), (squares.threads, 1, 1)
        module = squares.module
        device.launch(module, module.family, *sizes, (*args, *part), squares.shared)


def count_squares(m: int, n: int, triangle: Uplo, side: int) -> int:
    """Count the squares that are made of one product."""
    rows, columns = -(-m // side), -(-n // side)
    return rows * columns if triangle == "full" else rows * (rows + 1) // 2


def deriving_pays(device: CudaDevice, system: ResidueSystem, n: int, k: int) -> bool:
    """Tell whether deriving products of ``X X^H`` from others pays.

    Instead of one triangle of all products the others are multiplied in full: where
    2M needs no squares beyond half, a triangle has those of its diagonal.
    """
    own, count = system.num_hermitian_products, system.num_products
    side = choose_squares(device, (n, n, k), "lower", count).side
    whole = count_squares(n, n, "full", side)
    half = count_squares(n, n, "lower", side)
    derived = (count - own) * whole * tuning.DERIVED_K
    return derived + own * whole * k < count * half * k


@cache
def _tabulate(
    system: ResidueSystem,
    own: tuple[int, ...],
    places: tuple[int, ...],
    left: tuple[int, ...],
    right: tuple[int, ...],
) -> Array:
    """Tabulate planes, product and its reduction as the kernels read them."""
    given = zip(places, own, (system.products[q] for q in own), strict=True)
    jobs = [(left[x.left], right[x.right], i, q) for i, q, x in given]
    return np.array(jobs, np.int32)
