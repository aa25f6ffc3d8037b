"""The order in which layers of workers take tiles along k, if they hold inputs.

Residues may be added in any order, so each layer takes what one of its workers holds.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from ..tiles.grid import Grid
from ..tiles.spec import SIDES, Spec, is_straight
from ..typing import Side
from ..workers.client import current_client

T = TypeVar("T", bound=Hashable)


def follow_holders(grid: Grid, spec: Spec, a: Any, b: Any) -> Grid:
    """Return the same, with tiles along k in an order that moves little.

    Workers are asked only where they share k and hold tiles, if the client can wait.
    """
    client = current_client()
    if len(grid.layers) == 1 or client is None or client.asynchronous:
        return grid
    both = [*zip(SIDES, (a, b), strict=True)][: 2 - spec.same_operand]
    tiles = [x for side, array in both for x in _list_held(grid, spec, side, array)]
    if not tiles:
        return grid
    where = client.who_has([future for _, _, future in tiles])
    held: list[Counter[str]] = [Counter() for _ in grid.k]
    for step, size, future in tiles:
        held[step].update(dict.fromkeys(where.get(future.key, ()), size))
    holders = [next(iter(found.most_common(1)), (None,))[0] for found in held]
    lengths = [sum(hi - lo for part in x for lo, hi in part) for x in grid.layers]
    # All workers of a layer have one number.
    known = sorted({x for x in holders if x is not None})
    team = max(1, len(known) // len(lengths))
    teams = [None if x is None else known.index(x) // team for x in holders]
    order = share_out(teams, lengths)
    return replace(grid, k=tuple(grid.k[s] for s in order), order=order)


def _list_held(grid: Grid, spec: Spec, side: Side, array: Any) -> list[Any]:
    """List the tiles that a cluster holds: the step along k, the rows, the future."""
    from distributed import Future

    layer: Mapping[Any, Any] = array.dask.layers.get(array.name, {})
    sizes = grid.m if side == "left" else grid.n
    straight = is_straight(side, spec.op(side))
    found = []
    for key, value in layer.items():
        if isinstance(value, Future) and not value.cancelled() and key[0] == array.name:
            i, step = key[1:] if straight else key[:0:-1]
            found.append((step, sizes[i], value))
    return found


def share_out(holders: Sequence[T | None], lengths: Sequence[int]) -> tuple[int, ...]:
    """Order tiles such that each layer gets as many as possible of one holder.

    `lengths`: tiles of each layer. The holders of most come first.

    >>> share_out(["x", "y", None, "x", "y"], [2, 3])
    (1, 4, 0, 3, 2)
    """
    own: dict[T | None, list[int]] = defaultdict(list)
    for step, holder in enumerate(holders):
        own[holder].append(step)
    own.pop(None, None)
    shares: list[list[int]] = [[] for _ in lengths]
    ranked = sorted(own.values(), key=len, reverse=True)
    layers = sorted(range(len(lengths)), key=lambda x: -lengths[x])
    for layer, steps in zip(layers, ranked, strict=False):
        shares[layer] = steps[: lengths[layer]]
    taken = {step for share in shares for step in share}
    loose = (step for step in range(len(holders)) if step not in taken)
    for share, length in zip(shares, lengths, strict=True):
        share += islice(loose, length - len(share))
    return tuple(step for share in shares for step in share)
