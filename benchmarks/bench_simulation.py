"""Simulate products on many GPUs: the very graph and placement, on clocks alone.

No task runs. This package's plugin places the graph of a plan, and says what a worker
fetches ahead; tasks, transfers and the scheduler take what `model` has measured. A
device runs one task after another, and so does the scheduler. Blocks queue on the way
into a worker, out of a node, and into one (``--network``, bytes a second: 4e11 for
eight links of 50 GB/s), whose workers share them as `host_shares` has it. Inputs lie
where placement would make them (home), are made there by tasks (made), or lie on
workers drawn by lot (anywhere). Memory is left out, and with it copies that are dropped
and fetched again. Predictions, not measurements of a GPU.

Data for which rows settle the moduli (``--data rows``) are read twice, and later tasks
of the check only pass on. If columns are shifted, tiles are read twice more; if pairs
are open, their octaves are found and multiplied, which the first panel awaits.

    python benchmarks/bench_simulation.py --workers 64 --size 131072 --network 2e10,5e10
"""

import random
from argparse import Namespace
from collections import defaultdict
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count, product
from math import prod
from typing import Any

import dask.array as da
from dask.order import order

from benchmarks.harness import Report, run
from benchmarks.model import MACHINES, SECONDS_PER_TASK, make_plan, predict
from tests.support.schedulers import FakeScheduler
from twom_dist.moduli import residue_system
from twom_dist.plan import Plan
from twom_dist.run.collection import product_array
from twom_dist.tiles.accumulator import SweepStep
from twom_dist.tiles.analysis.pair_stages import bound_pairs
from twom_dist.tiles.cells import multiply_second
from twom_dist.tiles.dask.graph import (
    PART,
    PRODUCT,
    PRODUCT_STAGES,
    SWEEP,
    UPDATE,
    Operands,
)
from twom_dist.tiles.dask.placement.assignment import stage_and_token
from twom_dist.tiles.dask.task_spec import Alias

# The share of the scheduler's time for a task that it takes as the graph arrives.
ARRIVAL = 0.2
# Seconds from scheduler to worker, or back: dask sends every 2 ms what has gathered.
MESSAGE = 1e-3
# Stages of the data check that read tiles.
READING = "twom-largest", "twom-sums", "twom-exponents"
OCTAVES, PAIRS = "twom-octaves", "twom-pairs"
# The int8 products that take as long as one of octaves (docs/kernels.md; predicted).
OCTAVE_PRODUCTS = 40
# The columns after which few pairs can still decide. In 512 rows of 131072 columns,
# exp(phi N(0, 1)), phi = 3 to 6, or half of them negligible, 3,000 to 12,500 were
# counted for warps of octaves.cu, and 11,000 to 28,000 for blocks, which load until
# their last warp ends. Where few entries meet, it may be all columns.
OPEN = 12288
# Seconds of Python that a worker takes for a task: 1.4 to 2.1 ms with the scheduler's
# on the same two cores (dask-gpu.jsonl).
PYTHON = 1.5e-3


class Simulation:
    """The time at which each task of a graph has ended."""

    def __init__(self, array: Any, plan: Plan, args: Namespace, network: float) -> None:
        workers, node = plan.n_workers, args.node
        drawn, held = random.Random(1), {}
        graph = self.graph = dict(array.__dask_graph__())
        inputs = [key for key in graph if not key[0].startswith("twom-")]
        if args.inputs == "anywhere":
            held = {key: chr(97 + drawn.randrange(workers)) for key in inputs}
        self.scheduler = FakeScheduler(array, workers, held, workers // node)
        self.plan, self.drawn, self.link = plan, drawn, args.link
        self.data, self.network = args.data, network
        ranks = order(graph)
        for key, task in self.scheduler.tasks.items():
            task.priority = 0, 1, ranks[key]
        self.scheduler.place()
        assert plan.grid.sweeps
        for key in inputs if args.inputs == "home" else ():
            task = self.scheduler.tasks[key]
            task.who_has += map(self.scheduler.workers.get, task.worker_restrictions)
            task.state = "memory"
        self.events: list[Any] = []
        self.turn, self.now = count(), 0.0
        self.free: dict[Any, float] = defaultdict(float)  # devices, links, scheduler
        self.busy: dict[Any, float] = defaultdict(float)
        self.work: dict[Any, float] = defaultdict(float)  # without the data check
        self.tasks: dict[str, int] = defaultdict(int)  # that workers have now
        # By block and worker: the tasks there that wait for it.
        self.coming: dict[Any, list[Any]] = {}
        self.missing: dict[Any, int] = {}  # blocks, by task
        # By block, sender and node: workers that wait for a neighbour.
        self.led: dict[Any, list[Any]] = {}
        self.entered, self.first = 0.0, 0.0
        self.workers = [*self.scheduler.workers.values()]

    def at(self, when: float, call: Any, *args: Any) -> None:
        heappush(self.events, (when, next(self.turn), call, args))

    def take(self, what: Any, seconds: float) -> float:
        """Have something be busy as soon as it can, and return until when."""
        begin = max(self.now, self.free[what])
        self.free[what], self.busy[what] = begin + seconds, self.busy[what] + seconds
        return begin + seconds

    def run(self) -> float:
        tasks = self.scheduler.tasks
        self.waits = {x: len(x.dependencies) for x in tasks.values()}
        for task in tasks.values():
            for other in task.dependents if task.who_has else ():
                self.waits[other] -= 1
        todo = [x for x in tasks.values() if not x.who_has]
        self.take("scheduler", ARRIVAL * SECONDS_PER_TASK * len(todo))
        self.at(self.free["scheduler"], self.send, todo)
        while self.events:
            self.now, _, call, args = heappop(self.events)
            call(*args)
        assert all(x.who_has for x in todo)
        return self.now

    def send(self, tasks: Any) -> None:
        """Send tasks that can run to their workers, by priority."""
        ready = (x for x in tasks if not (self.waits[x] or x.processing_on))
        for task in sorted(ready, key=lambda x: x.priority):
            own = task.worker_restrictions
            own = own or {ws.address for x in task.dependencies for ws in x.who_has}
            names = sorted(own) or [*self.scheduler.workers]
            idle = min(self.tasks[x] for x in names)
            names = [x for x in names if self.tasks[x] == idle]
            worker = self.scheduler.workers[self.drawn.choice(names)]
            self.tasks[worker.address] += 1
            task.processing_on, task.state = worker, "processing"
            tiles = [x for x in task.dependencies if worker not in x.who_has]
            self.missing[task] = len(tiles)
            for tile in sorted(tiles, key=lambda x: x.priority):
                self.bring(tile, worker).append(task)
            if not tiles:
                self.at(self.now + MESSAGE, self.begin, task, worker)
            self.scheduler.fetched.clear()
            self.scheduler.plugin.transition(task.key, "waiting", "processing")
            for place, key in self.scheduler.fetched:
                there = self.scheduler.workers[place]
                self.bring(self.scheduler.tasks[key], there)

    def bring(self, tile: Any, worker: Any) -> list[Any]:
        """Ask for a block, and return the list of tasks that wait for it."""
        there = tile, worker
        if worker not in tile.who_has and there not in self.coming:
            self.coming[there] = []
            self.at(self.now + 2 * MESSAGE, self.fetch, tile, worker)
        return self.coming.get(there, [])

    def fetch(self, tile: Any, worker: Any) -> None:
        """Send a block, or have it wait until a neighbour has it from that sender."""
        near = [x for x in tile.who_has if x.host == worker.host]
        sender = self.drawn.choice(near or tile.who_has)
        sought = self.scheduler.sought.get((worker.address, tile.key))
        if sought and not near:
            sender = self.scheduler.workers[sought]
        key = tile, sender, worker.host
        if not near and key in self.led:
            self.led[key].append(worker)
            return
        nbytes = size_of(tile, self.plan, self.data)
        if not nbytes:
            self.at(self.now, self.arrive, tile, worker, key)
            return
        end = self.take(("to", worker), nbytes / self.link)
        if not near:
            self.led[key] = []
            for way in (("out", sender.host), ("in", worker.host)):
                end = max(end, self.take(way, nbytes / self.network))
            self.entered += nbytes
        self.at(end, self.arrive, tile, worker, key)

    def arrive(self, tile: Any, worker: Any, key: Any) -> None:
        tile.who_has.append(worker)
        for task in self.coming.pop((tile, worker)):
            self.missing[task] -= 1
            if not self.missing[task]:
                self.begin(task, worker)
        for other in self.led.pop(key, ()):
            self.at(self.now + 2 * MESSAGE, self.fetch, tile, other)

    def begin(self, task: Any, worker: Any) -> None:
        if stage_and_token(task.key)[0] == SWEEP:
            self.first = self.first or self.now
        self.at(self.now + PYTHON, self.launch, task, worker)

    def launch(self, task: Any, worker: Any) -> None:
        seconds = seconds_of(task, self.graph[task.key], self.plan, self.data)
        if stage_and_token(task.key)[0] in (*PRODUCT_STAGES, UPDATE):
            self.work[worker] += seconds
        # A thread that waits for nothing on the device waits for no other one.
        done = self.take(worker, seconds) if seconds else self.now
        self.at(done + MESSAGE, self.report, task, worker)

    def report(self, task: Any, worker: Any) -> None:
        """Have the scheduler handle the end of a task."""
        seconds = (1 - ARRIVAL) * SECONDS_PER_TASK
        self.at(self.take("scheduler", seconds), self.end, task, worker)

    def end(self, task: Any, worker: Any) -> None:
        task.state = "memory"
        task.who_has.append(worker)
        self.tasks[worker.address] -= 1
        for other in task.dependents:
            self.waits[other] -= 1
        self.send(task.dependents)


def size_of(tile: Any, plan: Plan, data: str) -> float:
    """Return the bytes of an input, of sums or octaves; others are small."""
    stage, area = stage_and_token(tile.key)[0], prod(plan.tile_shape[:2])
    if stage == PART:
        products = residue_system(plan.method, plan.num_moduli).num_products
        return products * area * len(tile.dependents)
    if stage == OCTAVES and data == "pairs":
        return area * len(list_tiles(tile))
    return 0.0 if stage else 16 * area


def list_tiles(task: Any) -> list[Any]:
    return [x for x in task.dependencies if not stage_and_token(x.key)[0]]


def seconds_of(task: Any, node: Any, plan: Plan, data: str) -> float:
    """Return what a task takes on its device: products, and passes over memory."""
    machine, area = MACHINES["h200"], prod(plan.tile_shape[:2])
    system = residue_system(plan.method, plan.num_moduli)
    each, stage = system.num_products, stage_and_token(task.key)[0]
    tiles, operations, moved = len(list_tiles(task)), 0.0, 0.0
    given = getattr(node, "args", ())
    step = next((x for x in given if isinstance(x, SweepStep)), None)
    early = any(x.key[1:] == ("sums",) for x in task.dependencies)
    if early and stage == SWEEP and data == "pairs":
        return 0.0
    again = multiply_second in given and data == "pairs"
    if step:
        triangle = plan.spec.routine.triangle
        cells = sum(0.5 if triangle and i == j else 1.0 for i, j in step.cells.values())
        if multiply_second in given and not again:
            (first, begin), (_, end) = plan.grid.panels[:2]  # the first is multiplied
            tiles -= tiles * (begin - first) // (end - first)
        along = tiles // len({(plan.spec.side_of(x), i) for x, i in step.lines})
        operations = cells * along * each * 2 * area * plan.tile_shape[2]
        # Sums are read and added to from the second tile along k on; products include
        # the time of writing them.
        moved = (16 + len(system.planes)) * tiles + each * cells * along
        moved -= 0 if step.done and not again else each * cells
        moved += 16 + each if stage == PRODUCT else 0
    elif stage == PRODUCT:
        stages = [stage_and_token(x.key)[0] for x in task.dependencies]
        others = max(0, stages.count(SWEEP) + stages.count(PART) - 1)
        moved = 16 + each * (1 + 3 * others)
    elif stage == UPDATE:
        moved = 0 if isinstance(node, Alias) else 32
    elif stage in READING and (len(task.key) < 5 or data == "columns"):
        moved = 16 * tiles * (1 if len(plan.grid.strips) > 1 else 2)
    elif stage == OCTAVES and data == "pairs":
        moved = 17 * tiles
    elif stage == PAIRS and data == "pairs":
        found = {x.key[3] for x in task.dependencies if size_of(x, plan, data)}
        ends = [plan.grid.strips[s] for s in found]
        columns = sum(hi - lo for lo, hi in ends) * plan.tile_shape[2]
        columns = min(columns, OPEN) if given[0] is bound_pairs else columns
        operations = len(given[3].args) * columns * OCTAVE_PRODUCTS * 2 * area
    elif not stage:
        moved = 16
    passes = area * moved / machine.pass_bytes_per_second
    return operations / machine.int8_ops_per_second + passes


def bench_simulation(report: Report, args: Namespace) -> None:
    for given in product(args.routines, args.workers, args.network):
        simulate(report, args, *given)


def make_simulation(
    name: str, workers: int, network: float, args: Namespace
) -> Simulation:
    """Make the graph of a plan, and place it."""
    machine, shape = MACHINES["h200"], (args.size, args.size)
    more = {"num_moduli": args.num_moduli} if args.num_moduli else {}
    plan = make_plan(name, args.size, args.tile, workers, machine, args.node, **more)
    a, b = (f(shape, chunks=args.tile, dtype=complex) for f in (da.ones, da.zeros))
    spec = replace(plan.spec, engine="cpu", lazy=True)
    given = Operands(a, a if name == "herk" else b)
    return Simulation(product_array(given, plan.grid, spec), plan, args, network)


def simulate(
    report: Report, args: Namespace, name: str, workers: int, network: float
) -> None:
    made = make_simulation(name, workers, network, args)
    seconds, plan = made.run(), made.plan
    model = predict(plan, MACHINES["h200"], args.link, network)
    report.add(
        "simulation",
        routine=name,
        n=args.size,
        tile=args.tile,
        workers=workers,
        node=args.node,
        link=args.link,
        network=network,
        inputs=args.inputs,
        data=args.data,
        num_moduli=args.num_moduli or "default",
        tasks=plan.num_tasks,
        grid=plan.worker_grid,
        seconds=seconds,
        efficiency=model.ideal / workers / seconds,
        model=model.ideal / workers / model.seconds,
        share=max(made.work.values()) / seconds,
        look_seconds=made.first,
        device_busy=max(made.busy[x] for x in made.workers) / seconds,
        scheduler_busy=made.busy["scheduler"] / seconds,
        node_busy=max(made.busy["in", x.host] for x in made.workers) / seconds,
        entered_bytes=made.entered,
        planned_bytes=plan.bytes_between_hosts,
    )


if __name__ == "__main__":
    run(
        __doc__,
        bench_simulation,
        routines=["gemm", "herk"],
        workers=[16],
        size=65536,
        tile=8192,
        node=8,
        link=450e9,
        network=[5e10],
        inputs="home",
        data="rows",
        num_moduli=0,
    )
