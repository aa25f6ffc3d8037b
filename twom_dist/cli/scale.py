"""Tables of predictions: ``twom-dist plan`` with a range of workers, or a machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .failures import RefusedError

if TYPE_CHECKING:
    from ..plan import Cluster
    from ..plan.scale import Prediction

# Placing the triangle of an update takes some 4 ms for each worker.
MOST_WORKERS = 4096
GROWS = "larger for more workers: each keeps its bytes of the matrices"


def parse_workers(value: Any) -> tuple[int, ...]:
    """Read a number, or a range such as 8..64: 8, 16, 32, 64; its end always counts."""
    ends = str(value).split("..")
    numbers = [int(end) for end in ends if end.strip().isdecimal()]
    if len(numbers) != len(ends) or len(ends) > 2 or min(numbers) < 1:
        raise click.BadParameter(
            f"{value!r} is no number of workers such as 8, nor a range such as 8..1024"
        )
    if len(numbers) == 1:
        return (numbers[0],)
    first, last = numbers
    if first > last or last > MOST_WORKERS:
        raise click.BadParameter(
            f"{value!r} is no range that rises, up to {MOST_WORKERS} workers"
        )
    doubled = [first << i for i in range((last // first).bit_length())]
    return (*doubled, *([last] if doubled[-1] < last else []))


def show_scale(
    routine: str,
    shape: tuple[int, int, int],
    counts: tuple[int, ...],
    cluster: "Cluster",
    *,
    gpu: str | None,
    link: str,
    weak: bool,
    plot: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Predict a routine for every number of workers; print that, and draw it."""
    from dataclasses import replace

    from ..plan.machines import find_link, find_machine
    from ..plan.scale import scale

    for option, wanted in (("--weak", weak), ("--plot", plot)):
        if wanted and len(counts) == 1:
            raise RefusedError(
                f"{option} given; it takes a range of --workers, such as 8..1024"
            )
    machine = find_machine(gpu) if gpu else find_machine("cpu", cluster.threads)
    if cluster.memory is not None:
        machine = replace(machine, memory_bytes=cluster.memory)
    options |= {"machine": machine, "link": find_link(link)}
    options |= {"threads_per_worker": cluster.threads}
    found = scale(routine, shape, counts, weak, **options)
    if plot:
        _write_plot(plot, found, weak)
    if as_json:
        for one in found:
            click.echo(one.to_json())
    else:
        click.echo(format_table(found, weak, chosen="tile" not in options))


def _write_plot(path: str, found: "Sequence[Prediction]", weak: bool) -> None:
    from .scale_plot import draw_scale

    notes = ["dashed: the int8 products alone, shared evenly"]
    notes += [GROWS] if weak else []
    notes += [f"{name}: {text}" for name, text in describe_rates(found[0])]
    try:
        Path(path).write_text(draw_scale(found, describe(found[0]), notes), "utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise RefusedError(
            f"{path!r} could not be written: {reason}; name another file for --plot"
        ) from error


def describe(prediction: "Prediction") -> str:
    """Say in one line what is computed."""
    plan = prediction.plan
    return (
        f"{plan.routine}, {plan.m} x {plan.k} times {plan.k} x {plan.n}, {plan.dtype}, "
        f"{plan.method} with {plan.num_moduli} moduli"
    )


def describe_rates(prediction: "Prediction") -> list[tuple[str, str]]:
    """Name what the rates belong to, and say of each whether it was measured."""
    return [
        (
            name,
            f"{rate.name}, {'measured' if rate.measured else 'not measured'}: "
            f"{rate.source}",
        )
        for name in ("machine", "link", "scheduler")
        for rate in (getattr(prediction, name),)
    ]


def format_table(
    predictions: "Sequence[Prediction]", weak: bool, *, chosen: bool
) -> str:
    """Lay predictions out, one line for each number of workers.

    `chosen`: whether the tiles are those that `scale` found to be the fastest.
    """
    from ..plan.record import format_bytes

    rows = [("workers", "n", "tile", "seconds", "efficiency", "memory", "dominant")]
    for one in predictions:
        memory = format_bytes(one.plan.peak_worker_bytes)
        if one.memory_share is not None:
            memory += f" ({one.memory_share:.0%}){'' if one.fits else ' *'}"
        rows.append(
            (
                str(one.plan.workers),
                str(one.plan.n),
                str(one.plan.tile_shape[1]),
                f"{one.seconds:.3g}",
                f"{one.efficiency:.1%}",
                memory,
                one.dominant,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [describe(predictions[0]), *([GROWS] if weak else [])]
    lines += [f"{name:<9}  {text}" for name, text in describe_rates(predictions[0])]
    lines.append("")
    for row in rows:
        cells = [
            cell.ljust(width) if name in ("memory", "dominant") else cell.rjust(width)
            for name, cell, width in zip(rows[0], row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    notes = []
    if not all(one.fits for one in predictions):
        notes.append("* more than the workers hold: runs in waves, which take longer")
    idle = [one.plan for one in predictions if one.plan.idle_workers]
    if idle:
        counts = ", ".join(f"{plan.idle_workers} of {plan.workers}" for plan in idle)
        what = "use them and gain little" if chosen else "use them"
        notes.append(f"idle, without a tile of C: {counts}; smaller tiles would {what}")
    return "\n".join([*lines, *([""] if notes else []), *notes])
