"""Machines, links and schedulers of predictions: rates, and where each comes from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..config import bytes_setting, rate_setting
from ..errors import PlanError

# Assumed shares of what a data sheet promises, dense, until somebody has measured.
INT8_SHARE, MEMORY_SHARE = 0.75, 0.9

T = TypeVar("T", "Machine", "Link", "Scheduler")


@dataclass(frozen=True)
class Machine:
    """What one worker computes with.

    Attributes
    ----------
    name : str
    int8_ops_per_second : float
        Of int8 products.
    pass_bytes_per_second : float
        Bytes read and written by the passes around them: norms, encode, requantise,
        decode.
    memory_bytes : int or None
        None where it is not known.
    largest_tile : int
        Side that its tiles have where there are enough of them.
    measured : bool
        Whether a benchmark of this package gave the rates.
    source : str
        Where they come from.
    sum_bytes : int
        Of a sum of int8 products as it leaves them: 4, or 0 where residues leave.
    """

    name: str
    int8_ops_per_second: float
    pass_bytes_per_second: float
    memory_bytes: int | None
    largest_tile: int
    measured: bool
    source: str
    sum_bytes: int = 4


@dataclass(frozen=True)
class Link:
    """What one worker receives through; as much leaves it at the same time.

    Attributes
    ----------
    name : str
    bytes_per_second : float
        In one direction.
    measured : bool
        Whether a benchmark gave the rate.
    source : str
        Where it comes from.
    """

    name: str
    bytes_per_second: float
    measured: bool
    source: str


@dataclass(frozen=True)
class Scheduler:
    """The one process that hands tasks out.

    Attributes
    ----------
    name : str
    seconds_per_task : float
    measured : bool
        Whether a benchmark gave it.
    source : str
        Where it comes from.
    """

    name: str
    seconds_per_task: float
    measured: bool
    source: str


def _gpu(name: str, int8_tops: float, terabytes: float, gigabytes: int) -> Machine:
    """Describe a GPU by its data sheet: dense int8 rate, memory rate, memory."""
    return Machine(
        name,
        int8_ops_per_second=INT8_SHARE * int8_tops * 1e12,
        pass_bytes_per_second=MEMORY_SHARE * terabytes * 1e12,
        memory_bytes=gigabytes * 10**9,
        # Tasks of some 50 ms and more, and int32 sums that are a small part of them.
        largest_tile=8192,
        measured=False,
        source=(
            f"{INT8_SHARE:.0%} of NVIDIA's {int8_tops:g} TOPS, "
            f"{MEMORY_SHARE:.0%} of its {terabytes:g} TB/s"
        ),
    )


# Published by NVIDIA, SXM models; int8 without sparsity, half of what is printed first.
_GPUS = (
    _gpu("a100", 624, 2.039, 80),
    replace(_gpu("h100", 1979, 3.35, 80), sum_bytes=0),
    Machine(
        "h200",
        # n = 8192, 16 moduli: 25.2 ms of products and 5.5 ms of passes over 16.1 GB.
        int8_ops_per_second=1.40e15,
        pass_bytes_per_second=2.9e12,
        memory_bytes=141 * 10**9,
        largest_tile=8192,
        measured=True,
        source="one H200 at 700 W, benchmarks/results/gpu.jsonl",
        sum_bytes=0,
    ),
    _gpu("b200", 4500, 8.0, 180),
)
_CPU = Machine(
    "cpu",
    # One core, operands from memory: `kernels.cpu.tuning`.
    int8_ops_per_second=4.0e11,
    # gemm-eager at n = 1024 and 2048: two cores took 0.151 and 0.921 s, of which the
    # products at that rate leave 0.13 and 0.47 core seconds for 496 n^2 bytes.
    pass_bytes_per_second=4.2e9,
    memory_bytes=None,
    largest_tile=2048,
    measured=True,
    source="one Zen 4 core, gemm-eager in benchmarks/results/gemm-cpu-zen4.jsonl",
)
_DASK = Scheduler(
    "dask",
    seconds_per_task=6.0e-4,
    measured=True,
    # Of graphs of 3 000 to 121 000 tasks the median is 0.62 ms.
    source="0.51 to 0.73 ms a task, benchmarks/results/scheduler-cpu-zen4.jsonl",
)
_TCP = Link("tcp", 2.0e9, True, "dask between two processes of one machine")
_PUBLISHED = "as published, for one direction"

MACHINES = {machine.name: machine for machine in (_CPU, *_GPUS)}
LINKS = {
    link.name: link
    for link in (
        _TCP,
        Link("pcie", 64e9, False, f"PCIe 5.0 x16, 64 GB/s {_PUBLISHED}"),
        Link("nvlink", 450e9, False, f"NVLink 4, 450 GB/s {_PUBLISHED}"),
        Link("ndr", 50e9, False, f"InfiniBand NDR, 400 Gb/s {_PUBLISHED}"),
    )
}


def find_machine(name: str, cores: int = 1) -> Machine:
    """Look a machine up; ``twom-dist.machines.<name>`` overrides its rates.

    Parameters
    ----------
    name : {"cpu", "a100", "h100", "h200", "b200"}
        "cpu" is one core; its int8 rate is ``twom-dist.int8-ops-per-second``.
    cores : int
        As fast as so many of them: those of a CPU.

    Examples
    --------
    >>> find_machine("h200").measured, find_machine("b200").measured
    (True, False)
    """
    machine = _look_up(MACHINES, name, "machine")
    fields = _settings(
        f"machines.{name}",
        int8_ops_per_second=rate_setting,
        pass_bytes_per_second=rate_setting,
        memory_bytes=bytes_setting,
    )
    if machine is _CPU:
        fields = {"int8_ops_per_second": rate_setting("int8-ops-per-second"), **fields}
    machine = _override(machine, fields)
    if cores == 1:
        return machine
    return replace(
        machine,
        name=f"{cores} x {name}",
        int8_ops_per_second=cores * machine.int8_ops_per_second,
        pass_bytes_per_second=cores * machine.pass_bytes_per_second,
        measured=False,
        source=f"{cores} times {machine.source}",
    )


def find_link(name: str) -> Link:
    """Look a link up; ``twom-dist.links.<name>`` overrides its rate.

    Parameters
    ----------
    name : {"tcp", "pcie", "nvlink", "ndr"}
        The rate of "tcp" is ``twom-dist.link-bytes-per-second``.
    """
    link = _look_up(LINKS, name, "link")
    fields = _settings(f"links.{name}", bytes_per_second=rate_setting)
    if link is _TCP:
        fields = {"bytes_per_second": rate_setting("link-bytes-per-second"), **fields}
    return _override(link, fields)


def find_scheduler() -> Scheduler:
    """Return dask's scheduler; ``twom-dist.scheduler-seconds-per-task`` is its cost."""
    seconds = rate_setting("scheduler-seconds-per-task")
    return _override(_DASK, {"seconds_per_task": seconds})


def _look_up(table: dict[str, T], name: str, kind: str) -> T:
    if name not in table:
        raise PlanError(
            f"{kind} {name!r} given; known are {', '.join(map(repr, table))}"
        )
    return table[name]


def _settings(where: str, **readers: Callable[[str], Any]) -> dict[str, Any]:
    """Read those of the settings that are there."""
    found = {}
    for field, read in readers.items():
        try:
            found[field] = read(f"{where}.{field.replace('_', '-')}")
        except (KeyError, TypeError):  # TypeError: of null
            continue
    return found


def _override(known: T, fields: dict[str, Any]) -> T:
    """Replace what differs, and say so: a setting is nobody's measurement."""
    if all(getattr(known, field) == value for field, value in fields.items()):
        return known
    shown = ", ".join(f"{field} = {value:g}" for field, value in fields.items())
    source = f"{shown} in dask.config"
    return replace(known, **fields, measured=False, source=source)
