"""Predict the seconds of a plan on many workers, from measured rates.

The tasks of a worker run one after another at the rates of its machine. Each worker has
its own link. Tiles move while others are worked on, except the inputs of the first
task. Meanwhile one scheduler handles one task after another. With ``--node 8`` so many
workers share a machine, into which ``--network`` brings what moves between machines.
The model omits files, waves, the overhead of a task on its worker, and shared links.

    python -m benchmarks.model --machine h200 --size 131072 --tile 8192 --link 5e10
    python -m benchmarks.model --fits
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any

import dask
import numpy as np

import twom_dist as td
from benchmarks.harness import parse
from twom_dist.errors import MemoryLimitError
from twom_dist.moduli import residue_system
from twom_dist.plan import Plan
from twom_dist.run.sources import plan_inputs
from twom_dist.tiles.dask.placement.triangle import triangle_map

# Between two processes of one machine, for arrays of 64 MiB through dask's TCP.
LINK_BYTES_PER_SECOND = 2.0e9
# Seconds of the scheduler per task: 0.51 to 0.73 ms in graphs of 3,000 to 121,000
# tasks, median 0.62 (benchmarks/results/scheduler-cpu-zen4.jsonl).
SECONDS_PER_TASK = 6.0e-4


@dataclass(frozen=True)
class Machine:
    """The machine of one worker."""

    int8_ops_per_second: float
    pass_bytes_per_second: float
    sum_bytes: int  # written and read again of each sum; 0: the product reduces it
    source: str
    engine: str = "cpu"
    memory_limit: str | None = None  # of a worker; of a GPU, its pool


MACHINES = {
    "cpu": Machine(
        # `kernels.cpu.tuning`, operands from memory.
        4.0e11,
        # gemm-eager at n = 1024 and 2048: two cores took 0.151 and 0.921 s, of which
        # the products at that rate leave 0.13 and 0.47 core seconds for 496 n^2 bytes.
        4.2e9,
        4,
        "one Zen 4 core, benchmarks/results/gemm-cpu-zen4.jsonl",
    ),
    "h200": Machine(
        # n = 8192, 16 moduli: 25.0 ms of products, which write their residues, and
        # 5.0 ms of passes over 14.0 GB.
        1.41e15,
        2.8e12,
        0,
        "one H200 at 700 W, benchmarks/results/gpu.jsonl",
        "cuda",
        # 0.9 of the 139 GiB that it offers.
        "125 GiB",
    ),
}


@dataclass(frozen=True)
class Prediction:
    """Seconds of the busiest worker, and of the scheduler."""

    ideal: float  # int8 products on one worker
    products: float
    passes: float
    exposed: float  # transfers that no work hides
    scheduling: float

    @property
    def seconds(self) -> float:
        return max(self.scheduling, self.products + self.passes + self.exposed)

    @property
    def dominant(self) -> str:
        if self.seconds == self.scheduling:
            return "scheduling"
        names = ("products", "passes", "exposed")
        return max(names, key=lambda name: float(getattr(self, name)))


@dataclass(frozen=True)
class Part:
    """The share of the busiest worker; lengths are entries."""

    share: float  # of the int8 products
    scaled: float  # of the inputs
    needed: float  # of the inputs
    taken: float  # of the inputs, once for every task
    received: float
    first: float  # received for its first task
    finished: float  # of C
    aliases: int = 0  # keys of all workers that no plan counts


def part_of_rectangle(plan: Plan) -> Part:
    """Return the work and the inputs of a worker in a grid of workers."""
    pr, pc, pk = plan.worker_grid
    (m, n, k), (mt, nt, _), (mb, nb, _) = plan.shape, plan.tiles, plan.tile_shape
    load, k = ceil(mt / pr) * ceil(nt / pc), ceil(k / pk)
    share = load / max(1, mt * nt) / pk
    rows = min(m, ceil(mt / pr) * mb)
    columns = min(n, ceil(nt / pc) * nb)
    return Part(
        share=share,
        scaled=(m + n) * k / (pr * pc),
        needed=(rows + columns) * k,
        taken=load * encodings(plan) * k,
        received=plan.bytes_moved / np.dtype(plan.dtype).itemsize / (pr * pc * pk),
        first=(mb + nb) * k * pk / plan.panels,
        finished=m * n * share,
    )


def encodings(plan: Plan) -> float:
    """Return the rows that are encoded for each tile of C, if none are kept for long.

    Tiles of C that GPUs multiply side by side share them.
    """
    (rows, columns), (mb, nb, _) = plan.spec.sweep, plan.tile_shape
    rows, columns = max(1, rows), max(1, columns)
    return mb / columns + nb / rows


def part_of_triangle(plan: Plan) -> Part:
    """Return the work and the inputs of a worker with some tiles of a triangle."""
    (_, n, k), nt, nb = plan.shape, plan.tiles[1], plan.tile_shape[1]
    matrices = 2 if plan.routine.endswith("2k") else 1
    inputs = matrices * n * k
    share = triangle_map(nt, plan.n_workers).balance / plan.n_workers
    needed = (plan.held_fraction or 0) * inputs
    moved = plan.bytes_moved / np.dtype(plan.dtype).itemsize
    cells = nt * (nt + 1) // 2
    computed = n**2 * cells / nt**2
    mirrored = n**2 - computed if plan.uplo == "full" else 0
    of_task = matrices * 2 * nb * k
    return Part(
        share=share,
        scaled=inputs / plan.n_workers,
        needed=needed,
        taken=cells * share * matrices * encodings(plan) * k,
        received=needed * moved / (moved + inputs) if moved else 0.0,
        first=of_task / plan.panels,
        # A mirrored tile is read and written.
        finished=(computed + 2 * mirrored) * share,
        # A computed tile has a key in the result and one that placement knows.
        aliases=cells,
    )


def predict(
    plan: Plan,
    machine: Machine,
    link: float = LINK_BYTES_PER_SECOND,
    network: float = inf,
) -> Prediction:
    """Predict a plan with int8 products whose inputs lie on the workers.

    An entry of s bytes becomes L planes and takes P products, with kt tiles along k.
    Norms read s twice. Encode reads s and writes L, once for all inputs of a worker if
    its cache keeps them, otherwise for every task. Requantise writes and reads
    `sum_bytes` P for each of the kt tiles, and writes P; products that reduce their
    sums do so within their own time. P are read to add others, and by decode, which
    writes s.
    """
    part = (part_of_rectangle if plan.worker_grid else part_of_triangle)(plan)
    itemsize = np.dtype(plan.dtype).itemsize
    planes = len(residue_system(plan.method, plan.num_moduli).planes)
    kept = planes * part.needed <= plan.cache_bytes
    kt = plan.tiles[2]
    sums = plan.int8_operations / (2 * plan.shape[2]) * part.share
    pass_bytes = (
        2 * itemsize * part.scaled
        + (itemsize + planes) * (part.needed if kept else part.taken)
        + (2 * machine.sum_bytes + 1 + bool(machine.sum_bytes)) * kt * sums
        + itemsize * part.finished
    )
    ideal = plan.int8_operations / machine.int8_ops_per_second
    products, passes = ideal * part.share, pass_bytes / machine.pass_bytes_per_second
    moving = itemsize * part.received / link
    first = min(moving, itemsize * part.first / link)
    if plan.cluster.node:
        nodes = plan.n_workers // plan.cluster.node
        moving = max(moving, plan.bytes_between_hosts / nodes / network)
    return Prediction(
        ideal,
        products,
        passes,
        exposed=first + max(0.0, moving - first - products - passes),
        scheduling=(plan.num_tasks + part.aliases) * SECONDS_PER_TASK,
    )


def make_plan(
    routine: str,
    n: int,
    tile: int,
    workers: int,
    machine: Machine,
    node: int = 0,
    **options: Any,
) -> Plan:
    """Plan a square complex128 product or update whose inputs lie on the workers."""
    operands = [(n, n)] * (1 if routine in ("herk", "syrk") else 2)
    with dask.config.set({"twom-dist.inputs": "hold"}):
        alone = td.plan(
            getattr(td, routine),
            *operands,
            chunks=tile,
            n_workers=workers,
            memory_limit=machine.memory_limit,
            engine=machine.engine,
            **options,
        )
        if workers <= node or not node:
            return alone
        spec, grid = alone.spec, alone.grid
        cluster = replace(alone.cluster, node=node)
        return plan_inputs(spec, (grid.m, grid.n, grid.k), cluster, lambda: False)


def fitting(
    routine: str, n: int, tile: int, workers: int, machine: Machine, node: int = 0
) -> Plan | None:
    try:
        plan = make_plan(routine, n, tile, workers, machine, node)
    except MemoryLimitError:
        return None
    return plan if plan.fits(leaving=False) else None


def show_table(args: Namespace) -> None:
    machine = MACHINES[args.machine]
    print(f"{args.routine}, n = {args.size}, tiles of {args.tile}, complex128")
    print(f"{args.machine}: {machine.source}; link: {args.link / 1e9:g} GB/s")
    print("workers  seconds  efficiency  GiB a worker  dominant")
    for workers in args.n_workers:
        given = args.routine, args.size, args.tile, workers
        plan = fitting(*given, machine, args.node)
        if plan is None:
            print(f"{workers:>7}  does not fit")
            continue
        found = predict(plan, machine, args.link, args.network)
        used = found.ideal / (workers * found.seconds)
        print(
            f"{workers:>7}  {found.seconds:>7.3g}  {used:>10.1%}  "
            f"{plan.peak_worker_bytes / 2**30:>12.1f}  {found.dominant}"
        )


def show_fits(_: Namespace) -> None:
    """Print the largest matrices that so many GPUs hold, in multiples of a tile."""
    tile = 8192
    print("GPUs  memory  pool     gemm    herk")
    for name, pool in (("80 GB", "71 GiB"), ("141 GB", "125 GiB")):
        machine = replace(MACHINES["h200"], memory_limit=pool)
        for workers in (1, 2, 4, 8):
            found = []
            for routine in ("gemm", "herk"):
                count = 1
                while fitting(routine, (count + 1) * tile, tile, workers, machine):
                    count += 1
                found.append(count * tile)
            print(f"{workers:>4}  {name:<6}  {pool:<7}  {found[0]:>6}  {found[1]:>6}")


def main(given: Sequence[str] | None = None) -> None:
    product = {"routine": "gemm", "size": 16384, "tile": 2048, "fits": False}
    workers = {"n_workers": [1, 8, 64, 512], "machine": "cpu", "node": 0}
    links = {"link": LINK_BYTES_PER_SECOND, "network": 5e10}
    args = parse(__doc__, given=given, **product, **workers, **links)
    (show_fits if args.fits else show_table)(args)


if __name__ == "__main__":
    main()
