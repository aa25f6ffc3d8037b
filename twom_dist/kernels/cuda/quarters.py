"""Products of tiles in quarters, seven for eight: see `twom_dist.kernels.winograd`.

Sums of quarters of a few products' planes, their products by one launch,
sums of those: then the next few, in the same memory.
"""

from functools import cache
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array
from .. import winograd
from ..limits import Shape
from ..winograd import LEFT, RESULT, RIGHT
from . import tables, tuning
from .cublas import align
from .device import CudaDevice
from .encoded import CudaEncoded
from .hopper import LINE, ROW_GROUP
from .launch import tile_grid
from .products import launch_products
from .sources import module_for
from .workspace import available_bytes, working_bytes, workspace_bytes

# Biases of a byte that became unsigned, and of sums of four of them: subtracting from
# these leaves nothing negative.
_BIAS, _FIELDS = 128, (255, 1023)
# Words of a thread of winograd.cu, for one level and two.
_LANES = {1: 4, 2: 1}


def quarter_shape(shape: Shape, levels: int) -> Shape:
    """Sides of the quarters, or of quarters of those, as planes are padded."""
    m, n, k = (-(-size // (1 << levels)) for size in shape)
    return align(m, ROW_GROUP), align(n, ROW_GROUP), align(k, LINE)


def _take_products(shape: Shape, levels: int) -> tuple[int, int]:
    """Bytes of the quarters of one product, and how many are multiplied at once."""
    h, w, d = quarter_shape(shape, levels)
    each = 7**levels * (h * d + w * d + h * w)
    return each, max(1, tuning.QUARTERS_BYTES // each)


def choose_levels(device: CudaDevice, system: ResidueSystem, shape: Shape) -> int:
    """Choose levels of Winograd's algorithm whose quarters fit the workspace."""
    tuned = tuning.tuning_for(device.capability())
    if not tuned.fused:
        return 0
    crossovers = tuning.CROSSOVERS[tuned.products[0]]
    grain = (ROW_GROUP, ROW_GROUP, LINE)
    for levels in range(winograd.choose_levels(shape, grain, crossovers), 0, -1):
        each, most = _take_products(shape, levels)
        quarters = each * min(most, system.num_products)
        rest = workspace_bytes(device.total_bytes()) - working_bytes(system, shape, 0)
        # Planes and residues lie there already, beside what is free.
        if quarters <= min(rest, available_bytes(device, quarters)):
            return levels
    return 0


def multiply_in_quarters(
    device: CudaDevice,
    left: CudaEncoded,
    right: CudaEncoded,
    system: ResidueSystem,
    residues: Array,
    own: tuple[int, ...],
    before: Array | None,
    levels: int,
) -> None:
    """Multiply the products `own` by halves, and add residues of their shape."""
    whole = left.rows, right.rows, left.k
    h, w, d = quarter_shape(whole, levels)
    _, most = _take_products(whole, levels)
    for first in range(0, len(own), most):
        few = own[first : first + most]
        x = _spread(device, left, system, few, (h, d), levels, False)
        y = _spread(device, right, system, few, (w, d), levels, True)
        products = device.empty((len(x), h, w), np.int8)
        jobs = _tabulate(few, levels)
        launch_products(device, x, y, jobs, system, (h, w), products, None, "full")
        args = (
            *(products, h, w, device.constant(tables.product_indices(few))),
            *(before, residues, left.rows, residues.strides[-2], residues.strides[0]),
            device.constant(_table(system, few, "result", levels)),
        )
        grid = tile_grid(h, w, 4 * _LANES[levels], len(few))
        device.launch(module_for("winograd", levels=levels), "join", *grid, args)


@cache
def _tabulate(own: tuple[int, ...], levels: int) -> Array:
    """Tabulate the jobs: planes, product of quarters, and its modulus."""
    count = 7**levels
    jobs = [
        (t, t, t, q)
        for s, q in enumerate(own)
        for t in range(s * count, (s + 1) * count)
    ]
    return np.array(jobs, np.int32)


def _spread(
    device: CudaDevice,
    operand: CudaEncoded,
    system: ResidueSystem,
    own: tuple[int, ...],
    quarter: tuple[int, int],
    levels: int,
    right: bool,
) -> Array:
    """Write the sums of quarters of the planes that products take, in their order."""
    side = "right" if right else "left"
    given = [operand.order[getattr(system.products[q], side)] for q in own]
    out = device.empty((len(own) * 7**levels, *quarter), np.int8)
    args = (
        *(operand.planes, *operand.planes.shape[1:]),
        *(device.constant(tables.product_indices(tuple(given))), out, *quarter),
        *(device.constant(_table(system, own, side, levels)), right),
    )
    grid, block = tile_grid(*quarter, 4 * _LANES[levels], len(own))
    device.launch(module_for("winograd", levels=levels), "spread", grid, block, args)
    return out


@cache
def _table(
    system: ResidueSystem, own: tuple[int, ...], side: str, levels: int
) -> Array:
    """Tabulate {inverse, -p, lifts} of each product: the lifts take biases back."""
    form: Any = {"left": LEFT, "right": RIGHT}.get(side, RESULT)
    biases = [_BIAS]
    for top in _FIELDS[:levels]:
        # The outer form's rows go first.
        biases = [
            int((row > 0).sum()) * bias + int((row < 0).sum()) * (top - bias)
            for row in form
            for bias in biases
        ]
    # What was there before, or a zero, is biased, too.
    old = _BIAS if side == "result" else 0
    entries = [
        (*tables.reduction_constants(p), *(-(bias + old) % p for bias in biases))
        for p in (system.products[q].p for q in own)
    ]
    return np.array(entries, np.uint32)
