"""Products that are split along k as a test wants it."""

import pickle
import random
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from itertools import cycle, pairwise

import dask
import pytest

from twom_dist.plan import planner
from twom_dist.plan.sweeps import cut_sweeps
from twom_dist.run import lazy
from twom_dist.tiles import cells, program
from twom_dist.tiles.dask.placement.grids import WorkerGrid
from twom_dist.tiles.grid import Partial, cut_inner

SIDES = [(1, 1), (1, 2), (2, 1), (2, 3)]


@contextmanager
def split_along_k(layers, parts, seed=None):
    """Have every plan cut k into so many layers and parts, if it has the tiles.

    By a seed parts are added in pairs that are drawn, instead of along the planned
    tree; tiles are taken in an order that is drawn, as if workers held them so; rows
    are looked at in strips and groups that are drawn, across panels and parts; and
    tiles of C are multiplied in sweeps that are drawn, as on GPUs.
    """
    choose, draw = planner.choose_splits, random.Random(seed)

    def chosen(spec, chunks, cluster, **given):
        (best, *_) = choose(spec, chunks, cluster, **given)
        own = min(layers, len(chunks[2]))
        if spec.native or spec.empty:
            return [best]
        return [best._replace(layers=own, parts=parts)]

    def add_up(parts, add):
        left = list(parts)
        while len(left) > 1:
            x = left.pop(draw.randrange(len(left)))
            y = left.pop(draw.randrange(len(left)))
            place = x.layer, x.first, x.parts + y.parts
            left.append(Partial(*place, add(place, x.sums, y.sums)))
        return left[0]

    def reorder(grid, spec, a, b):
        order = tuple(draw.sample(range(grid.kt), grid.kt))
        return replace(grid, k=tuple(grid.k[s] for s in order), order=order)

    def share_look(grid, spec, cluster, placement=None):
        inner = range(1, grid.kt)
        cuts = sorted(draw.sample(inner, draw.randint(0, len(inner))))
        strips = tuple(pairwise((0, *cuts, grid.kt)))
        block = draw.randint(1, grid.mt), draw.randint(1, grid.nt)
        # Tasks that make their tiles look at a row each.
        held = placement is not None and spec.looks
        sizes = [x if held else 0 for x in (grid.mt, grid.nt)]
        groups = [tuple(draw.choices(range(3), k=x)) for x in sizes]
        workers, size = WorkerGrid(*draw.choice(SIDES)), draw.choice(SIDES)
        sweeps = cut_sweeps(grid, spec, workers, size)
        grid = replace(grid, strips=strips, groups=tuple(groups), sweeps=sweeps)
        return replace(grid, pair_block=block)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "choose_splits", chosen)
        if seed is not None:
            patch.setattr(program, "add_up", add_up)
            patch.setattr(lazy, "follow_holders", reorder)
            patch.setattr(planner, "share_look", share_look)
        yield


@contextmanager
def in_sweeps(workers, size, panel=0):
    """Have every plan multiply tiles of C in sweeps, for workers in a grid.

    `panel`: tiles along k of a panel, if whole rows are analysed.
    """
    share_look, placement = planner.share_look, WorkerGrid(*workers)

    def share(grid, spec, *given):
        grid = share_look(grid, spec, *given)
        if panel:
            layers = cut_inner(grid.kt, len(grid.layers), 1, panel)
            strips = tuple((part[0][0], part[-1][1]) for (part,) in layers)
            grid = replace(grid, strips=strips, layers=layers)
        return replace(grid, sweeps=cut_sweeps(grid, spec, placement, size))

    with (
        dask.config.set({"twom-dist.panel-bytes": 1}),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(planner, "share_look", share)
        yield


def run_again(multiply, panel):
    """Have each step of a sweep fail in the middle, run again on a copy, and again."""
    failures = cycle([ValueError, None])

    def fail(*args, **options):
        if error := next(failures):
            raise error
        return panel(*args, **options)

    def run(spec, step, before, *args):
        for _ in range(2):
            with suppress(ValueError), pytest.MonkeyPatch.context() as patch:
                patch.setattr(cells, "multiply_panel", fail)
                multiply(spec, step, before, *map(copy, args))
        before = pickle.loads(pickle.dumps(before))
        multiply(spec, step, before, *map(copy, args))
        return multiply(spec, step, before, *map(copy, args))

    return run


@contextmanager
def steps_run_again():
    """Have each step of a sweep, of graphs made here, fail first and run repeatedly."""
    run = run_again(cells.multiply_sweep, cells.multiply_panel)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "multiply_sweep", run)
        yield
