"""Products that are split along k as a test wants it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from twom_dist.plan import planner
from twom_dist.plan.split import Split
from twom_dist.run import lazy
from twom_dist.tiles import program
from twom_dist.tiles.grid import Grid
from twom_dist.tiles.parts import Partial


def force_split(patch: pytest.MonkeyPatch, layers: int, parts: int) -> None:
    """Have every plan cut k into so many layers and parts, if it has the tiles."""
    choose = planner.choose_splits

    def chosen(spec: Any, chunks: Any, cluster: Any, **given: Any) -> list[Split]:
        (best, *_) = choose(spec, chunks, cluster, **given)
        own = min(layers, len(chunks[2]))
        if spec.native or spec.empty:
            return [best]
        return [best._replace(layers=own, parts=parts)]

    patch.setattr(planner, "choose_splits", chosen)


def add_at_random(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Add parts in pairs that are drawn, instead of along the planned tree."""
    draw = random.Random(seed)

    def add_up(parts: Sequence[Partial], add: Callable[..., Any]) -> Partial:
        left = list(parts)
        while len(left) > 1:
            x = left.pop(draw.randrange(len(left)))
            y = left.pop(draw.randrange(len(left)))
            place = x.layer, x.first, x.parts + y.parts
            left.append(Partial(*place, add(place, x.sums, y.sums)))
        return left[0]

    patch.setattr(program, "add_up", add_up)


def order_at_random(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Take tiles along k in an order that is drawn, as if workers held them so."""
    draw = random.Random(seed)

    def reorder(grid: Grid, spec: Any, a: Any, b: Any) -> Grid:
        order = tuple(draw.sample(range(grid.kt), grid.kt))
        return replace(grid, k=tuple(grid.k[s] for s in order), order=order)

    patch.setattr(lazy, "follow_holders", reorder)


def look_in_strips(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Look at every row in strips that are drawn, across panels and parts."""
    draw = random.Random(seed)

    def share_look(grid: Grid, spec: Any, cluster: Any) -> Grid:
        inner = range(1, grid.kt)
        cuts = sorted(draw.sample(inner, draw.randint(0, len(inner))))
        return replace(grid, strips=tuple(pairwise((0, *cuts, grid.kt))))

    patch.setattr(planner, "share_look", share_look)
