"""A description of a job that a later run compares with its own."""

import time
from hashlib import sha256
from importlib import import_module
from socket import gethostname
from typing import Any

from ..errors import StoreError
from ..plan import Layout
from ..plan.explanation import Explanation, add_findings, explain_spec
from ..tiles.interpreter import Found
from ..typing import Array
from .inputs import Identity
from .job import Job

# Fields of a spec that determine the bits, beside routine, shape, dtype and method.
_ARGUMENTS = ("alpha", "beta", "op_a", "op_b", "uplo", "equilibrate")

Manifest = dict[str, Any]

# Phases of a run, as a log and the status of a job tell them.
KEPT = "checking the tiles that are kept"
LOOKING = "looking at the inputs"
MULTIPLYING = "multiplying"
VERIFYING = "verifying the result"
WRITING = "writing the output"


def describe_job(job: Job, inputs: dict[str, Identity]) -> Manifest:
    """Describe everything but the layout that determines the result's bits.

    Those of the native product depend on the engine as well.
    """
    system, spec = job.system, job.spec
    made = {
        "twom_dist": import_module("twom_dist").__version__,
        "routine": job.routine,
        "shape": list(job.shape),
        "dtype": job.dtype.name,
        **{name: _name(getattr(spec, name)) for name in _ARGUMENTS},
        "method": spec.method,
    }
    if job.diag is not None:
        made["diag"] = _hash(job.diag)
    if system is None:
        library = "CuPy" if job.engine == "cuda" else "NumPy"
        made["engine"] = job.engine
        made[library] = import_module(library.lower()).__version__
    elif spec.by_entries:
        made["moduli"] = "of the matrices"
    else:
        made["moduli"] = [list(modulus) for modulus in system.choice]
    return {
        "made": made,
        "accuracy": vars(explain_job(job)),
        "inputs": inputs,
        # Another path may lead to the same entries, which are compared.
        **({"diag": job.diag_path} if job.diag_path else {}),
        "versions": {x: import_module(x).__version__ for x in ("numpy", "zarr")},
        "overwrite": job.overwrite,
    }


def describe_run(job: Job) -> Manifest:
    """Describe a run of a job: where and since when, and what to type to continue."""
    phase = LOOKING if job.spec.looks else MULTIPLYING
    return {
        "host": gethostname(),
        "since": time.time(),
        "command": job.command,
        "phase": phase,
    }


def _hash(diag: Array) -> str:
    """Identify the entries of a diagonal, which a job has read before it begins."""
    return f"{diag.dtype} {sha256(diag.tobytes()).hexdigest()[:16]}"


def explain_job(job: Job, found: Found | None = None) -> Explanation:
    """Explain the accuracy of a job, with the findings of a look at its matrices."""
    known = explain_spec(job.spec, job.choice.by_entries, job.choice.asked)
    if found is None:
        return known
    return add_findings(known, found)


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
            remedy = "Start anew (overwrite=True, --overwrite)"
            raise StoreError(problem, remedy, "unfinished-input-changed")


def check_same_panels(output: str, then: Manifest, layout: Layout) -> None:
    """Refuse a layout that rounds a native product elsewhere than the first one."""
    panels = describe_layout(layout)["panels"]
    if then["panels"] != panels:
        both = then["panels"], panels
        counts = (f"{sum(map(len, x))} panels along k" for x in both)
        raise _differ(output, *counts)


def _differ(output: str, old: str, new: str) -> StoreError:
    problem = f"{output!r} was begun with {old} and this run has {new}"
    remedy = "Run the job as it was begun, or start anew (overwrite=True, --overwrite)"
    return StoreError(problem, remedy, "unfinished-differs")


def _show(manifest: Manifest, part: str) -> str:
    """Show what a job was made with; for moduli, the accuracy that chose them."""
    value = manifest["made"].get(part, "none")
    if part == "moduli":
        return str(manifest["accuracy"]["asked"])
    text = " x ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{part} {text}"
