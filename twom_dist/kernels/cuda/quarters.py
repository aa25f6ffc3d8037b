"""Products of tiles in quarters, seven for eight: see `twom_dist.kernels.winograd`.

For a few products at a time: sums of quarters of planes, products of these sums by one
launch, and sums of these products. The next few use the same memory.
"""

from functools import cache
from typing import Any

import numpy as np

from ...moduli import ResidueSystem
from ...typing import Array
from ..limits import Shape
from ..winograd import LEFT, RESULT, RIGHT, choose_levels
from . import tables, tuning
from .cublas import align
from .device import CudaDevice
from .hopper import LINE, ROW_GROUP
from .launch import tile_grid
from .planes import CudaEncoded, PlaneProducts
from .products import Multiplication, launch_products
from .sources import module_for
from .workspace import available_bytes, working_bytes, workspace_bytes

_BIAS = 128  # bias of a byte that became unsigned
_LANES = 16  # neighbours of a thread of winograd.cu


def _cut(shape: Shape) -> tuple[Shape, int, int]:
    """Cut a product: sides of quarters, their bytes, and products at once.

    Sides are those of padded planes.
    """
    m, n, k = (-(-size // 2) for size in shape)
    h, w, d = align(m, ROW_GROUP), align(n, ROW_GROUP), align(k, LINE)
    each = 7 * (h * d + w * d + h * w)
    return (h, w, d), each, max(1, tuning.QUARTERS_BYTES // each)


def takes_quarters(device: CudaDevice, system: ResidueSystem, shape: Shape) -> bool:
    """Tell whether a level of Winograd's algorithm pays and fits the workspace."""
    tuned = tuning.tuning_for(device.capability())
    if not tuned.fuses(shape) or system.wraps:  # quarters are of bytes
        return False
    crossovers = tuning.CROSSOVERS.get(tuned.products[0], ())
    if choose_levels(shape, (ROW_GROUP, ROW_GROUP, LINE), crossovers) == 0:
        return False
    _, each, most = _cut(shape)
    quarters = each * min(most, system.num_products)
    rest = workspace_bytes(device.total_bytes()) - working_bytes(system, shape, 0)
    # Planes and residues lie there already, beside what is free.
    return quarters <= min(rest, available_bytes(device, quarters))


def multiply_in_quarters(device: CudaDevice, task: PlaneProducts) -> None:
    """Multiply the products `own` by halves; residues are of these or of all."""
    left, right, system, residues, before, own = task
    (h, w, d), _, most = _cut((left.rows, right.rows, left.k))
    places = range(len(own)) if len(residues) == len(own) else own
    for first in range(0, len(own), most):
        few, theirs = own[first : first + most], tuple(places[first : first + most])
        x = _spread(device, left, system, few, (h, d), False)
        y = _spread(device, right, system, few, (w, d), True)
        products = device.empty((len(x), h, w), np.int8)
        given = x, y, _tabulate(few), tables.requantise_table(system), (h, w)
        launch_products(device, Multiplication(*given, products, None))
        args = (
            *(products, h, w, device.constant(tables.product_indices(theirs))),
            *(before, residues, left.rows, residues.strides[-2], residues.strides[0]),
            device.constant(_table(system, few, "result")),
        )
        grid = tile_grid(h, w, _LANES, len(few))
        device.launch(module_for("winograd"), "join", *grid, args)


@cache
def _tabulate(own: tuple[int, ...]) -> Array:
    """Tabulate the jobs: planes, product of quarters, and its modulus."""
    jobs = [(t, t, t, own[t // 7]) for t in range(7 * len(own))]
    return np.array(jobs, np.int32)


def _spread(
    device: CudaDevice,
    operand: CudaEncoded,
    system: ResidueSystem,
    own: tuple[int, ...],
    quarter: tuple[int, int],
    right: bool,
) -> Array:
    """Write the sums of quarters of the planes that products take, in their order."""
    side = "right" if right else "left"
    given = [operand.order[getattr(system.products[q], side)] for q in own]
    out = device.empty((7 * len(own), *quarter), np.int8)
    args = (
        *(operand.planes, *operand.planes.shape[1:]),
        *(device.constant(tables.product_indices(tuple(given))), out, *quarter),
        *(device.constant(_table(system, own, side)), right),
    )
    grid, block = tile_grid(*quarter, _LANES, len(own))
    device.launch(module_for("winograd"), "spread", grid, block, args)
    return out


@cache
def _table(system: ResidueSystem, own: tuple[int, ...], side: str) -> Array:
    """Tabulate {inverse, -p, lifts} of each product: the lifts take biases back."""
    form: Any = {"left": LEFT, "right": RIGHT}.get(side, RESULT)
    # What is subtracted is 255 less a byte.
    biases = [
        int(_BIAS * (row > 0).sum() + (255 - _BIAS) * (row < 0).sum()) for row in form
    ]
    # What was there before, or a zero, is biased, too.
    old = _BIAS if side == "result" else 0
    entries = [
        (*tables.reduction_constants(p), *(-(bias + old) % p for bias in biases))
        for p in (system.products[q].p for q in own)
    ]
    return np.array(entries, np.uint32)
