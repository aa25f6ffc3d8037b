"""Workers that share hosts: a tile enters few of them; plans say how much does."""

import random
from argparse import Namespace
from collections import Counter
from itertools import product
from math import ceil
from typing import Any

import dask.array as da

import twom_dist as td
from benchmarks.bench_simulation import make_simulation
from tests.support.cases import cases
from tests.support.schedulers import FakeScheduler, planned_for
from twom_dist.plan import Cluster

EACH = 8  # workers of a host


def place(routine, count, hosts, anywhere=False, known=True):
    """Place a product of `count` tiles a side, and return its plan as well."""
    workers, node = EACH * hosts, EACH if known and hosts > 1 else 0
    cluster = Cluster(workers, 1, node=node)
    a, b = (f((count, count), chunks=1, dtype=complex) for f in (da.ones, da.zeros))
    given = [a, b] if routine is td.gemm else [a]
    drawn, held = random.Random(hosts), dict[tuple[object, ...], str]()
    if anywhere:
        held = {
            (x.name, *cell): chr(ord("a") + drawn.randrange(workers))
            for x in given
            for cell in product(range(count), repeat=2)
        }
    with planned_for(cluster):
        made = routine(*given, num_moduli=16)
        plan = td.plan(routine, *given, num_moduli=16)
    scheduler = FakeScheduler(made, workers, held, hosts if known else 1)
    scheduler.place()
    return scheduler, {x.name for x in given}, plan


def count_moved(scheduler, names, host_of):
    """Count the tiles that come to workers, and those that enter each host."""
    needed = {}
    for task in scheduler.tasks.values():
        for tile in task.dependencies if task.key[0] not in names else ():
            if tile.key[0] in names:
                needed.setdefault(tile, set()).update(task.worker_restrictions)
    moved, entering = 0, dict.fromkeys(map(host_of, scheduler.workers), 0)
    for tile, workers in needed.items():
        homes = {ws.address for ws in tile.who_has} or tile.worker_restrictions
        moved += len(workers - homes)
        for host in set(map(host_of, workers)) - set(map(host_of, homes)):
            entering[host] += 1
    return moved, entering


def count_layers(scheduler):
    keys = (key for key in scheduler.tasks if "panel" in key[0])
    return 1 + max((layer for _, _, _, layer, _ in keys), default=0)


def rows_of_a_grid(routine, count, nodes):
    """Return the rows and columns that a node needs, in the best grid of nodes."""
    found = []
    for pr in (x for x in range(1, nodes + 1) if nodes % x == 0):
        pc = nodes // pr
        if routine is td.gemm:
            found.append(-(-count // pr) - (-count // pc))
        else:
            rows = {
                x: {i for i in range(count) if x in (i % pr, None)} for x in range(pr)
            }
            columns = {y: {j for j in range(count) if j % pc == y} for y in range(pc)}
            both = (rows[x] | columns[y] for x in rows for y in columns)
            found.append(max(map(len, both)))
    return min(found)


def least_moved(routine, count, workers):
    """Return the bytes that move at least, less those that may begin where they end.

    gemm: by the inequality of Loomis and Whitney. herk: a worker that multiplies
    w^2 K / 2 tiles needs w K of A and sends sums of w^2, twice the bytes of C.
    """
    if routine is td.gemm:
        edges = 3 * (count**3 / workers) ** (2 / 3) - 3 * count**2 / workers
    else:
        edges = 3 * (count**3 / workers / 2) ** (2 / 3) - 2 * count**2 / workers
    return 16 * workers * edges


@cases("routine", [td.gemm, td.herk])
@cases("hosts", [2, 4, 16])
@cases("anywhere", [False, True])
def test_tiles_enter_a_host_as_in_a_grid_of_hosts(routine, hosts, anywhere):
    count = 32 if hosts == 16 else 16
    scheduler, names, plan = place(routine, count, hosts, anywhere)
    moved, entering = count_moved(scheduler, names, lambda w: scheduler.workers[w].host)
    layers = count_layers(scheduler)
    # Several layers on a host have all of its steps.
    nodes = max(1, hosts // layers)
    steps = count // layers * max(1, layers // hosts)
    tiles = rows_of_a_grid(routine, count, nodes) * steps
    own = count * count * len(names)
    there = tiles / hosts if anywhere else own / hosts
    # The workers of several nodes that have rows of a triangle in common need less.
    most = 0.8 + 0.05 * anywhere if routine is td.herk and nodes > 2 else 1.2
    assert max(entering.values()) <= most * (tiles - there)
    # Plans count it, and the residues of other layers.
    apart = min(hosts, layers) - 1
    residues = apart * count**2 * plan.spec.system.num_products
    if routine is td.herk:
        residues = residues * (count + 1) // (2 * count)
    if not anywhere:
        planned = plan.bytes_between_hosts - residues
        assert planned == 16 * sum(entering.values())
    # What goes to workers hardly grows.
    other, names, alone = place(routine, count, hosts, anywhere, known=False)
    before, _ = count_moved(other, names, lambda w: w)
    assert moved <= 1.04 * before
    assert "between machines" in str(plan)
    assert "between machines" not in str(alone)


@cases("routine", [td.gemm, td.herk])
@cases("count", [16, 28, 32])
@cases("workers", [8, 16, 32, 64, 128])
def test_workers_receive_little_more_than_they_must(routine, count, workers):
    shapes = [(count, count)] * (2 if routine is td.gemm else 1)
    given = {"chunks": 1, "num_moduli": 16, "n_workers": workers}
    moved = td.plan(routine, *shapes, **given).bytes_moved
    assert moved <= 1.34 * least_moved(routine, count, workers)


@cases("routine", [td.gemm, td.herk])
@cases("allowed", ["ab", "abc", "abcde", "abcdefg"])
def test_the_workers_that_are_allowed_get_even_shares(routine, allowed):
    """Of a product that was planned for eight, in two layers."""
    a, b = (f((16, 16), chunks=1) for f in (da.ones, da.zeros))
    with planned_for(Cluster(8)):
        product = routine(*([a, b] if routine is td.gemm else [a]), num_moduli=4)
    scheduler, work = FakeScheduler(product, 8), Counter()
    for task in scheduler.tasks.values():
        task.worker_restrictions = {*allowed}
    scheduler.place()
    for name, i, j, *step in scheduler.tasks:
        if "panel" in name and step:
            (worker,) = scheduler.tasks[name, i, j, *step].worker_restrictions
            work[worker] += 1 if i == j and routine is td.herk else 2
    # As even as on a grid of so many.
    assert max(work.values()) <= 1.32 * work.total() / len(allowed)


def test_more_workers_than_designs_are_searched_for_get_even_shares():
    """Of the largest known plane only 183 would have any."""
    made = td.herk(da.ones((40, 1), chunks=1), num_moduli=4, uplo="lower")
    scheduler = FakeScheduler(made, 600)
    scheduler.place()
    homes = scheduler.homes(made.name)
    cells = Counter(worker for (i, j), worker in homes.items() if i >= j)
    assert max(cells.values()) <= 4


def test_threads_are_slots_of_their_host():
    a = da.ones((8, 8), chunks=1)
    made = td.gemm(a, a, num_moduli=4)
    scheduler = FakeScheduler(made, 6, hosts=2)
    for worker, threads in zip(scheduler.running, (1, 1, 2, 1, 1, 2), strict=True):
        worker.nthreads = threads
    scheduler.place()
    homes = Counter(scheduler.homes(made.name).values())
    assert homes == dict(zip("abcdef", (8, 8, 16, 8, 8, 16), strict=True))
    (rows, columns), other = (
        [
            {cell[side] for cell, w in scheduler.homes(made.name).items() if w in host}
            for side in (0, 1)
        ]
        for host in ("ace", "bdf")
    )
    assert len(rows) + len(columns) == len(other[0]) + len(other[1]) == 12


def test_few_rows_are_shared_by_the_workers_of_a_host():
    # Planned for one worker, which analyses all rows of a matrix together.
    a, b = da.ones((4, 4), chunks=1), da.zeros((4, 4), chunks=1)
    scheduler = FakeScheduler(td.gemm(a, b), 8, hosts=2)
    scheduler.place()
    homes = scheduler.homes(a.name), scheduler.homes(b.name)
    assert [{*Counter(x.values()).values()} for x in homes] == [{4}, {4}]
    first, second = ({scheduler.workers[w].host for w in x.values()} for x in homes)
    assert len(first) == len(second) == len(first ^ second) - 1 == 1


def simulated(routine, size, workers, **more):
    args = {"size": size, "tile": 8192, "node": EACH, "inputs": "home", "link": 1}
    return make_simulation(
        routine, workers, 1, Namespace(**args, num_moduli=0, data="rows", **more)
    )


def test_all_gpus_get_as_many_tiles():
    made = simulated("gemm", 131072, 64)
    holders = (task.who_has for task in made.scheduler.tasks.values())
    assert {*Counter(own[0].address for own in holders if own).values()} == {8}


@cases("routine", ["gemm", "herk"])
@cases("workers", [16, 64])
def test_open_pairs_are_bounded_where_they_are_multiplied(routine, workers):
    """Each worker has its share of them, at once."""
    made = simulated(routine, 131072, workers)
    places, work = dict[Any, set[str]](), Counter[str]()
    for key, task in made.scheduler.tasks.items():
        if "twom-sweep" in key[0]:
            places[key[1:4]] = task.worker_restrictions
    for key, task in made.scheduler.tasks.items():
        stages = {x.key[0][: len("twom-pairs")] for x in task.dependencies}
        if "twom-pairs" in key[0] and "twom-octav" in stages:
            (worker,) = places.pop(key[1:])
            assert (task.worker_restrictions, "twom-pairs" in stages) == ({worker}, 0)
            work[worker] += len(made.graph[key].args[3].args)
    assert not places
    mean = work.total() / workers
    assert max(work.values()) <= max(1.25 * mean, ceil(mean))
