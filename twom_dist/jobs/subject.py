"""What a job makes, in words that a later run can compare with its own."""

from dataclasses import asdict, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from ..plan import Cluster, fit_panels
from ..store import Record
from .layout import Layout
from .waves import Wave

if TYPE_CHECKING:
    from .job import Job

# Of this description: another one is not understood.
_FORM = 1


def describe_job(job: "Job", layout: Layout, cluster: Cluster) -> dict[str, Any]:
    """Describe everything that the bits of the result hang on, and the layout.

    The exact methods give the same bits for every tile, engine and worker, so that a
    job may go on with another engine. The native product does not, and rounds after
    each panel along k.
    """
    made: dict[str, Any] = {
        "twom_dist": import_module("twom_dist").__version__,
        "routine": job.routine,
        "shape": list(job.shape),
        "dtype": job.dtype.name,
        **{name: _name(value) for name, value in job.scalars.items()},
        **_describe_method(job, layout, cluster),
    }
    return {
        "form": _FORM,
        "made": made,
        "asked": _name_accuracy(job),
        "inputs": stamp_inputs(job),
        "layout": asdict(layout) | {"waves": [_list(wave) for wave in layout.waves]},
    }


def _describe_method(job: "Job", layout: Layout, cluster: Cluster) -> dict[str, Any]:
    system = job.system
    if system is None:
        return {
            "method": "native",
            "engine": job.engine,
            **_describe_library(job),
            "tile": list(layout.tile_shape),
            "panels along k": count_panels(job, layout, cluster),
        }
    return {
        "method": system.method,
        "moduli": [list(modulus) for modulus in system.choice],
        "scaling": job.options.get("scaling", "norm"),
    }


def _name_accuracy(job: "Job") -> str:
    """Name what the moduli were chosen by, as it is written in a call."""
    if job.system is None:
        return "method='native'"
    if (count := job.options.get("num_moduli")) is not None:
        return f"num_moduli={count}"
    accuracy = job.options.get("accuracy") or "native"
    return f"accuracy={accuracy!r} ({job.system.num_moduli} moduli)"


def _describe_library(job: "Job") -> dict[str, str]:
    name = "CuPy" if job.engine == "cuda" else "NumPy"
    return {name: import_module(name.lower()).__version__}


def count_panels(job: "Job", layout: Layout, cluster: Cluster) -> int:
    """Count the tasks that a tile is summed up in, one after the other."""
    import dask

    if job.engine == "cuda":
        # As the tasks are made: dask knows no limit of a device.
        cluster = replace(cluster, memory=None)
    k = layout.wave_chunks(layout.waves[0])[2]
    mb, nb, _ = layout.tile_shape
    with dask.config.set({"twom-dist.panel-bytes": layout.panel_bytes}):
        return len(fit_panels(k, mb, nb, job.dtype.itemsize, cluster))


def _name(scalar: complex | str) -> str:
    """Show all digits, and no imaginary part of 0."""
    if isinstance(scalar, str) or scalar.imag != 0:
        return str(scalar)
    return str(scalar.real)


def stamp_inputs(job: "Job") -> dict[str, list[str]]:
    """Look at the inputs: path, member and stamp of each."""
    return {
        name: [stored.path, stored.member or "", stored.stamp()]
        for name, stored in job.inputs.items()
    }


def check_unchanged(job: "Job", begun: dict[str, list[str]]) -> None:
    """Refuse a result of inputs that have changed since the run began.

    Raises
    ------
    StoreError
        Which one has, or is gone.
    """
    for name, stored in job.inputs.items():
        try:
            same = stored.stamp() == begun[name][2]
        except StoreError:
            same = False
        if not same:
            raise StoreError(
                f"{stored.path!r} has changed since the run began, so the result may "
                "be a mixture and is discarded",
                "Run the job again, and leave its inputs alone meanwhile",
                "input-changed",
            )


def _list(wave: Wave) -> list[Any]:
    ranges = (wave.rows.start, wave.rows.stop, wave.columns.start, wave.columns.stop)
    return [*ranges, wave.triangle]


def is_known(record: Record) -> bool:
    """Whether this version understands the description."""
    return record.subject.get("form") == _FORM


def read_layout(record: Record) -> Layout:
    """Return the layout that an output was begun with.

    Raises
    ------
    StoreError
        For the record of a version that described it in another form.
    """
    if not is_known(record):
        raise StoreError(
            f"{record.path!r} is of another version of twom_dist; continue it with "
            f"that one, or {name_restart(record)}"
        )
    fields = dict(record.subject["layout"])
    for name in ("shape", "tile_shape"):
        fields[name] = tuple(fields[name])
    waves = fields.pop("waves")
    cut = (Wave(slice(a, b), slice(c, d), triangle) for a, b, c, d, triangle in waves)
    return Layout(waves=tuple(cut), **fields)


def is_whole(record: Record) -> bool:
    """Whether all tiles are finished, and only the output's place is missing."""
    return is_known(record) and len(record.finished) == read_layout(record).num_computed


def name_restart(record: Record) -> str:
    """Say what to do where a run that would continue cannot."""
    if is_whole(record):  # is not discarded for the asking
        return f"remove {record.temporary!r} to start anew"
    return "start anew with overwrite=True alone"


def check_same(record: Record, now: dict[str, Any], name: str) -> None:
    """Refuse to continue another job than the one that was begun.

    Raises
    ------
    StoreError
        Something that the bits hang on differs, and what.
    """
    then = record.subject
    how = f"run it as it was begun, or {name_restart(record)}"
    for part in (*then["made"], *now["made"]):
        if then["made"].get(part) != now["made"].get(part):
            what = "" if part == "moduli" else f"{part} "
            raise StoreError(
                f"{name!r} was begun with {what}{_show(then, part)} and this run has "
                f"{_show(now, part)}; {how}"
            )
    for matrix in (*then["inputs"], *now["inputs"]):
        old, new = (x["inputs"].get(matrix, ["none"]) for x in (then, now))
        if old[:2] != new[:2]:
            raise StoreError(
                f"{name!r} was begun with {old[0]!r} as {matrix} and this run has "
                f"{new[0]!r}; {how}"
            )
        if old != new:
            raise StoreError(
                f"{old[0]!r} has changed since {name!r} was begun; "
                f"{name_restart(record)}"
            )


def _show(subject: dict[str, Any], part: str) -> str:
    """Show what a job was made with; moduli by what they were chosen by."""
    value = subject["made"].get(part, "none")
    if part == "moduli":
        return str(subject.get("asked", f"{len(value)} moduli"))
    return " x ".join(map(str, value)) if isinstance(value, list) else str(value)
