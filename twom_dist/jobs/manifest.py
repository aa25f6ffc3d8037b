"""What a job makes, in words that a later run can compare with its own."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

from ..errors import StoreError
from ..plan import Layout, Wave
from ..plan.layout import cut_sizes
from ..store import Journal
from ..tiles.grid import Grid
from .inputs import stamp_inputs
from .job import Job

# Of this description: another one is not understood.
_FORM = 2
# Of a spec, what the bits hang on beside routine, shape, dtype and method.
_ARGUMENTS = ("alpha", "beta", "op_a", "op_b", "uplo")


def describe_job(job: Job, layout: Layout) -> dict[str, Any]:
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
        **{name: _name(getattr(job.spec, name)) for name in _ARGUMENTS},
        **_describe_method(job, layout),
    }
    return {
        "form": _FORM,
        "made": made,
        "asked": _name_accuracy(job),
        "inputs": stamp_inputs(job),
        "layout": {
            "tile_shape": layout.tile_shape,
            "panels": layout.grid.panels,
            "cache_bytes": layout.spec.cache_bytes,
            "waves": [_list(wave) for wave in layout.waves],
        },
    }


def _describe_method(job: Job, layout: Layout) -> dict[str, Any]:
    system = job.system
    if system is None:
        name = "CuPy" if job.engine == "cuda" else "NumPy"
        return {
            "method": "native",
            "engine": job.engine,
            name: import_module(name.lower()).__version__,
            "tile": list(layout.tile_shape),
            "panels along k": len(layout.grid.panels),
        }
    return {
        "method": system.method,
        "moduli": [list(modulus) for modulus in system.choice],
    }


def _name_accuracy(job: Job) -> str:
    """Name what the moduli were chosen by."""
    if job.system is None:
        return "the native method"
    count = job.system.num_moduli
    if job.problem.options.get("num_moduli") is not None:
        return f"{count} moduli"
    return (
        f"accuracy {job.problem.options.get('accuracy') or 'native'} ({count} moduli)"
    )


def _name(scalar: complex | str) -> str:
    """Show all digits, and no imaginary part of 0."""
    if isinstance(scalar, str) or scalar.imag != 0:
        return str(scalar)
    return str(scalar.real)


def _list(wave: Wave) -> list[Any]:
    ranges = (wave.rows.start, wave.rows.stop, wave.columns.start, wave.columns.stop)
    return [*ranges, wave.triangle]


def is_known(journal: Journal) -> bool:
    """Whether this version understands the description."""
    return journal.subject.get("form") == _FORM


def check_known(journal: Journal) -> None:
    """Refuse the journal of a version that described its job in another form."""
    if not is_known(journal):
        raise StoreError(
            f"what is unfinished of {journal.target!r} is of another version of "
            "twom_dist",
            "Continue it with that one, or start anew with overwrite alone",
            "unfinished-version",
        )


def read_layout(journal: Journal, job: Job) -> Layout:
    """Return the layout that an output was begun with."""
    check_known(journal)
    fields = journal.subject["layout"]
    spec = replace(job.spec, lazy=True, cache_bytes=fields["cache_bytes"])
    m, n, k = map(cut_sizes, job.shape, fields["tile_shape"])
    grid = Grid(m, n, k, tuple((start, stop) for start, stop in fields["panels"]))
    return Layout(spec, grid, tuple(_read_waves(journal)))


def _read_waves(journal: Journal) -> Iterator[Wave]:
    for a, b, c, d, triangle in journal.subject["layout"]["waves"]:
        yield Wave(slice(a, b), slice(c, d), triangle)


def _count_computed(journal: Journal) -> int:
    return sum(wave.size for wave in _read_waves(journal))


def is_whole(journal: Journal) -> bool:
    """Whether all tiles are finished, and only the output's place is missing."""
    if not is_known(journal):
        return False
    return len(journal.finished) == _count_computed(journal)


def count_tiles(journal: Journal) -> str:
    """Count the finished tiles, and all, where the description is understood."""
    of_all = f" of {_count_computed(journal)}" if is_known(journal) else ""
    return f"{len(journal.finished)}{of_all} tiles"


def refuse(
    journal: Journal, problem: str, remedy: str, code: str
) -> tuple[str, str, str]:
    """Complete what is said of an unfinished output by how to start anew.

    One that is whole is not discarded for the asking: there, the code ends in "-whole".
    """
    if is_whole(journal):
        place = f"; its tiles are all finished, in {journal.temporary!r}"
        restart = "remove that file to start anew"
        problem, code = problem + place, f"{code}-whole"
    else:
        restart = "start anew with overwrite alone"
    return problem, f"{remedy}, or {restart}", code


def check_same(journal: Journal, now: dict[str, Any]) -> None:
    """Refuse to continue another job than the one that was begun.

    Raises
    ------
    StoreError
        Something that the bits hang on differs, and what.
    """
    then, name = journal.subject, repr(journal.target)

    def differ(old: Any, new: Any) -> StoreError:
        problem = f"{name} was begun with {old} and this run has {new}"
        remedy = "Run the job as it was begun"
        return StoreError(*refuse(journal, problem, remedy, "unfinished-differs"))

    for part in (*then["made"], *now["made"]):
        if then["made"].get(part) != now["made"].get(part):
            raise differ(*(_show(x, part) for x in (then, now)))
    for matrix in (*then["inputs"], *now["inputs"]):
        old, new = (x["inputs"].get(matrix, ["none"]) for x in (then, now))
        if old[:2] != new[:2]:
            raise differ(*(f"{x[0]!r} as {matrix}" for x in (old, new)))
        if old != new:
            problem = f"{old[0]!r} has changed since {name} was begun"
            remedy = "Bring back the input that it was begun with"
            changed = "unfinished-input-changed"
            raise StoreError(*refuse(journal, problem, remedy, changed))


def _show(subject: dict[str, Any], part: str) -> str:
    """Show what a job was made with; moduli by what they were chosen by."""
    value = subject["made"].get(part, "none")
    if part == "moduli":
        return str(subject.get("asked", f"{len(value)} moduli"))
    text = " x ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{part} {text}"
