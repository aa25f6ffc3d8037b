"""The manifest next to the tiles of a job: its description, and the chosen moduli."""

import io
import json
import time
from importlib import import_module
from itertools import product
from socket import gethostname
from typing import Any

import numpy as np

from ..errors import StoreError
from ..kernels.statistics import RowStatistics
from ..moduli.system import make_system
from ..plan import Layout
from ..plan.explanation import Explanation, add_findings, explain_spec
from ..store import Unfinished
from ..store.output import Manifest
from ..tiles.grid import Grid
from ..tiles.interpreter import Findings, Line
from ..tiles.spec import SIDES, Spec
from .job import Identity, Job

# Fields of a spec that determine the bits, beside routine, shape, dtype and method.
_ARGUMENTS = ("alpha", "beta", "op_a", "op_b", "uplo", "equilibrate")

# Phases of a run, as a log and the status of a job tell them.
KEPT = "checking the tiles that are kept"
LOOKING = "checking the data"
MULTIPLYING = "multiplying"
WRITING = "writing the output"


def describe_job(job: Job, inputs: dict[str, Identity]) -> Manifest:
    """Describe everything but the layout that determines the result's bits."""
    system, spec = job.system, job.spec
    made = {
        "twom_dist": import_module("twom_dist").__version__,
        "routine": job.routine,
        "shape": list(job.shape),
        "dtype": job.dtype.name,
        **{name: _name(getattr(spec, name)) for name in _ARGUMENTS},
        "method": spec.method,
    }
    made |= {name: digest for name, (_, digest) in job.vectors.items()}
    if system is None:  # bits are the engine's own
        library = "CuPy" if job.engine == "cuda" else "NumPy"
        made["engine"] = job.engine
        made[library] = import_module(library.lower()).__version__
    elif spec.data_driven:
        made["moduli"] = "of the matrices"
    else:
        made["moduli"] = [list(modulus) for modulus in system.choice]
    return {
        "made": made,
        "accuracy": vars(explain_job(job)),
        "inputs": inputs,
        # Another path may lead to the same entries, which are compared.
        "vectors": {name: origin for name, (origin, _) in job.vectors.items()},
        "versions": {x: import_module(x).__version__ for x in ("numpy", "zarr")},
        "overwrite": job.overwrite,
    }


def describe_run(job: Job, place: Unfinished) -> Manifest:
    """Describe a run of a job: where and since when, and what to type to continue."""
    return {
        "output": str(place.location),
        "host": gethostname(),
        "since": time.time(),
        "command": job.command,
        "phase": LOOKING if job.spec.looks else MULTIPLYING,
    }


def explain_job(job: Job, found: Findings | None = None) -> Explanation:
    """Explain the accuracy of a job, with the findings of its analysis."""
    known = explain_spec(job.spec, job.choice.data_driven, job.choice.asked)
    return known if found is None else add_findings(known, found)


def describe_layout(layout: Layout) -> Manifest:
    """Describe the tiles, and where a native product rounds along k."""
    panels = [[list(x) for x in part] for part in layout.grid.parts]
    return {"tile": list(layout.tile_shape), "panels": panels}


def _name(scalar: complex | str) -> str:
    """Show all digits, and no imaginary part of 0."""
    if isinstance(scalar, str | bool):
        return str(scalar)
    number = complex(scalar)
    return str(number if number.imag != 0 else number.real)


def check_same(output: str, then: Manifest, now: Manifest) -> None:
    """Refuse to continue a job other than the one that was begun."""
    asked = then["accuracy"]["asked"] != now["accuracy"]["asked"]
    for part in (*then["made"], *now["made"]):
        if then["made"].get(part) != now["made"].get(part):
            # By default it follows from the accuracy.
            if part == "equilibrate" and asked:
                part = "moduli"
            raise _differ(output, *(_show(x, part) for x in (then, now)))
    for matrix in (*then["inputs"], *now["inputs"]):
        old, new = (x["inputs"].get(matrix, ["none"]) for x in (then, now))
        if old[:2] != new[:2]:
            raise _differ(output, *(f"{x[0]!r} as {matrix}" for x in (old, new)))
        stamps = {x["stamps"][matrix] for x in (then, now)}
        if old != new or len(stamps) > 1:
            problem = (
                f"{old[0]!r} is not the file with which {output!r} was begun: it, or "
                "its owner, permissions or links, have changed, or it was renamed and "
                "renamed back, or is a copy"
            )
            remedy = "Start anew (overwrite=True)"
            raise StoreError(problem, remedy, "unfinished-input-changed")


def check_same_panels(output: str, then: Manifest, layout: Layout) -> None:
    """Refuse a layout that rounds a native product elsewhere than the first one."""
    both = then["panels"], describe_layout(layout)["panels"]
    if both[0] != both[1]:
        old, new = (f"{sum(map(len, x))} panels along k" for x in both)
        raise _differ(output, old, new)


def _differ(output: str, old: str, new: str) -> StoreError:
    problem = f"{output!r} was begun with {old} and this run has {new}"
    remedy = "Run the job as it was begun, or start anew (overwrite=True)"
    return StoreError(problem, remedy, "unfinished-differs")


def _show(manifest: Manifest, part: str) -> str:
    """Show what a job was made with; for moduli, the accuracy that chose them."""
    value = manifest["made"].get(part, "none")
    if part == "moduli":
        return str(manifest["accuracy"]["asked"])
    text = " x ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{part} {text}"


_FIELDS = "largest", "squares", "totals"


def pack(found: Findings, spec: Spec) -> bytes:
    """Pack findings of an analysis that a spec requested."""
    settled = found.spec
    about = settled.method, settled.moduli, settled.rho, settled.decided_by
    arrays: dict[str, Any] = {"about": json.dumps(about)}
    if found.shifts is not None:
        arrays["shifts"] = np.concatenate([*found.shifts])
    measured = found.measured or {}
    for side, name in product(spec.sides if measured else (), _FIELDS):
        lines = (line for line in sorted(measured) if line[0] == side)
        parts = [getattr(measured[line], name) for line in lines]
        if parts[0] is not None:
            arrays[f"{side}-{name}"] = np.concatenate(parts)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def unpack(data: bytes, spec: Spec, grid: Grid) -> Findings | None:
    """Return findings for a grid; None where the bytes are damaged."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = dict(stored)
        method, moduli, rho, decided_by = json.loads(str(arrays["about"]))
    except Exception:  # zip, zlib and JSON raise errors of many kinds
        return None
    if spec.data_driven:
        choice = tuple((p, kind) for p, kind in moduli)
        system = make_system(method, choice) if choice else None
        spec = spec.with_moduli(system, rho, decided_by)
    measured: dict[Line, RowStatistics] = {}
    for side, sizes in zip(SIDES, (grid.m, grid.n), strict=True):
        if f"{side}-largest" in arrays:
            parts = (_cut(arrays.get(f"{side}-{x}"), sizes) for x in _FIELDS)
            rows = enumerate(map(RowStatistics, *parts))
            measured |= {(side, i): values for i, values in rows}
    shifts = _cut(arrays["shifts"], grid.k) if "shifts" in arrays else None
    return Findings(spec, shifts, measured or None)


def _cut(x: Any, sizes: tuple[int, ...]) -> list[Any]:
    """Cut what tiles of these sizes share; None for each if there is nothing."""
    if x is None:
        return [None] * len(sizes)
    return np.split(x, np.cumsum(sizes)[:-1])
