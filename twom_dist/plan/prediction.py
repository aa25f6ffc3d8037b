"""A model of time: how long a plan takes on machines of which there are many.

Assumed: the tasks of a worker run one after another at the rates of its machine; each
worker has a link of its own; tiles move while others are worked on, all but the inputs
of the first task; one scheduler handles one task after another, beside all that.
"""

import json
from dataclasses import asdict, dataclass
from math import ceil

import numpy as np

from ..checks import ROUTINES
from ..errors import PlanError
from ..memory import USABLE_SHARE
from ..moduli import residue_system
from ..tiles.placement import WorkerGrid
from ..tiles.triangle import triangle_map
from .machines import Link, Machine, Scheduler, find_scheduler
from .record import Plan


@dataclass(frozen=True)
class Prediction:
    """Predicted seconds of the busiest worker, and of the scheduler.

    Attributes
    ----------
    plan : Plan
    machine : Machine
    link : Link
    scheduler : Scheduler
    ideal_seconds : float
        int8 products on one worker, at its rate and with nothing around them.
    products_seconds : float
        int8 products of the busiest worker.
    norms_seconds, encode_seconds, requantise_seconds, decode_seconds : float
        Passes around them.
    moving_seconds, exposed_seconds : float
        Of what the fullest worker receives: all, and what no work hides.
    scheduling_seconds : float
    """

    plan: Plan
    machine: Machine
    link: Link
    scheduler: Scheduler
    ideal_seconds: float
    products_seconds: float
    norms_seconds: float
    encode_seconds: float
    requantise_seconds: float
    decode_seconds: float
    moving_seconds: float
    exposed_seconds: float
    scheduling_seconds: float

    @property
    def passes_seconds(self) -> float:
        """Norms, encode, requantise and decode."""
        return (
            self.norms_seconds
            + self.encode_seconds
            + self.requantise_seconds
            + self.decode_seconds
        )

    @property
    def seconds(self) -> float:
        """The scheduler's, or products, passes and exposed moving: the longer one."""
        work = self.products_seconds + self.passes_seconds
        return max(self.scheduling_seconds, work + self.exposed_seconds)

    @property
    def efficiency(self) -> float:
        """Share of the int8 rate of all workers that is used."""
        return self.ideal_seconds / (self.plan.workers * self.seconds)

    @property
    def memory_share(self) -> float | None:
        """Peak of the fullest worker over the machine's memory, where that is known."""
        memory = self.machine.memory_bytes
        return None if memory is None else self.plan.peak_worker_bytes / memory

    @property
    def fits(self) -> bool:
        """Whether the fullest worker holds all of it; else it is computed in waves."""
        return (self.memory_share or 0) <= USABLE_SHARE

    @property
    def dominant(self) -> str:
        """What takes the longest: "products", "passes", "moving" or "scheduling"."""
        work = self.products_seconds + self.passes_seconds + self.exposed_seconds
        if self.scheduling_seconds > work:
            return "scheduling"
        parts = {
            "products": self.products_seconds,
            "passes": self.passes_seconds,
            "moving": self.exposed_seconds,
        }
        return max(parts, key=parts.__getitem__)

    @property
    def measured(self) -> bool:
        """Whether benchmarks gave all rates."""
        rates = self.machine, self.link, self.scheduler
        return all(rate.measured for rate in rates)

    def to_json(self) -> str:
        """Return everything as one line of JSON.

        Returns
        -------
        str
            Attributes and properties by name, and the plan's under "plan".
        """
        derived = {
            name: getattr(self, name)
            for name in ("passes_seconds", "seconds", "efficiency", "memory_share")
        }
        rest = {"fits": self.fits, "dominant": self.dominant}
        of_rates = {"workers": self.plan.workers, "measured": self.measured}
        return json.dumps(of_rates | derived | rest | asdict(self))


def predict(plan: Plan, machine: Machine, link: Link) -> Prediction:
    """Predict the seconds of a plan whose inputs lie on the workers.

    Parameters
    ----------
    plan : Plan
        Of a method with int8 products.
    machine : Machine
        One for each worker.
    link : Link
        One for each worker.

    Returns
    -------
    Prediction
        Its `seconds`, and what they are made of.

    Raises
    ------
    PlanError
        For ``method="native"``.

    Notes
    -----
    Bytes of the passes, for entries of s bytes that become L planes and take P
    products, with kt tiles along k. Norms read s twice; encode reads s and writes L,
    once for all that a worker needs where that stays in its cache, else for every
    task; requantise writes and reads 4 P for each of the kt (nothing on Hopper, where
    residues leave the products), and adds P to P from the second one on; decode reads
    P and writes s. Left out: ``scaling="accurate"``, reading C, files, and what a task
    costs its worker.

    Examples
    --------
    >>> from twom_dist.plan import plan_gemm
    >>> from twom_dist.plan.machines import find_link, find_machine
    >>> plan = plan_gemm((8192, 8192), (8192, 8192), workers=4)
    >>> predict(plan, find_machine("cpu"), find_link("tcp")).dominant
    'products'
    """
    if not plan.num_moduli:
        raise PlanError(
            "method='native' given; what is predicted is int8 products: give another"
        )
    part = _in_triangle(plan) if plan.worker_grid is None else _in_rectangle(plan)
    itemsize = np.dtype(plan.dtype).itemsize
    planes = len(residue_system(plan.method, plan.num_moduli).planes)
    kept = planes * part.needed <= plan.cache_bytes
    kt = plan.tiles[2]
    # Entries of C, each counted for every product of its planes.
    sums = plan.int8_operations / (2 * plan.k) * part.share if plan.k else 0.0
    passes = {
        "norms": 2 * itemsize * part.scaled,
        "encode": (itemsize + planes) * (part.needed if kept else part.taken),
        "requantise": 2 * (machine.sum_bytes * kt + kt - 1) * sums,
        "decode": 2 * sums + itemsize * part.finished,
    }
    seconds = {
        f"{name}_seconds": count / machine.pass_bytes_per_second
        for name, count in passes.items()
    }
    ideal = plan.int8_operations / machine.int8_ops_per_second
    products = ideal * part.share
    moving = itemsize * part.received / link.bytes_per_second
    first = min(moving, itemsize * part.first / link.bytes_per_second)
    work = products + sum(seconds.values())
    scheduler = find_scheduler()
    return Prediction(
        plan,
        machine,
        link,
        scheduler,
        ideal_seconds=ideal,
        products_seconds=products,
        moving_seconds=moving,
        exposed_seconds=first + max(0.0, moving - first - work),
        scheduling_seconds=(plan.num_tasks + part.aliases) * scheduler.seconds_per_task,
        **seconds,
    )


@dataclass(frozen=True)
class _Part:
    """What falls to the busiest worker: its share of the products; the rest in entries.

    `scaled` of the inputs, `needed` of them, and `taken`, which counts what every task
    takes; `received`, of that `first` for its first task; `finished` of C. Of all
    workers the `aliases`, which dask schedules and no plan counts.
    """

    share: float
    scaled: float
    needed: float
    taken: float
    received: float
    first: float
    finished: float
    aliases: int = 0


def _in_rectangle(plan: Plan) -> _Part:
    """Work and inputs of a worker on a grid of them."""
    assert plan.worker_grid is not None
    slots = WorkerGrid(*plan.worker_grid)
    m, n, k = plan.m, plan.n, plan.k
    mt, nt, _ = plan.tiles
    mb, nb, _ = plan.tile_shape
    load = slots.largest_load(mt, nt)
    rows = min(m, ceil(mt / slots.pr) * mb)
    columns = min(n, ceil(nt / slots.pc) * nb)
    # What several workers need lies on one of them, evenly spread.
    away_a, away_b = 1 - 1 / min(slots.pc, nt), 1 - 1 / min(slots.pr, mt)
    return _Part(
        share=load / (mt * nt),
        scaled=(m + n) * k / (slots.pr * slots.pc),
        needed=(rows + columns) * k,
        taken=load * (mb + nb) * k,
        received=(rows * away_a + columns * away_b) * k,
        first=(mb + nb) * k / plan.panels,
        finished=m * n * load / (mt * nt),
    )


def _in_triangle(plan: Plan) -> _Part:
    """Work and inputs of a worker that has some of the tiles of one triangle."""
    n, nt, nb = plan.n, plan.tiles[1], plan.tile_shape[1]
    matrices = 2 if ROUTINES[plan.routine].two else 1
    inputs = matrices * n * plan.k
    share = triangle_map(nt, plan.workers).balance / plan.workers
    needed = (plan.held_fraction or 0) * inputs
    moved = plan.bytes_moved / np.dtype(plan.dtype).itemsize
    cells = nt * (nt + 1) // 2
    computed = n**2 * cells / nt**2
    mirrored = n**2 - computed if plan.uplo == "full" else 0
    of_task = matrices * 2 * nb * plan.k
    return _Part(
        share=share,
        scaled=inputs / plan.workers,
        needed=needed,
        taken=cells * share * of_task,
        # Rows that several workers need lie on one of them, evenly spread.
        received=needed * moved / (moved + inputs) if moved else 0.0,
        first=of_task / plan.panels,
        # A mirrored tile is read and written.
        finished=(computed + 2 * mirrored) * share,
        # A computed tile has a key in the result and one that placement knows.
        aliases=cells,
    )
