"""``twom-dist info`` and ``status``: what is stored, and how far jobs are."""

import json
import time
from contextlib import suppress
from dataclasses import asdict
from math import isqrt
from typing import Any

import click
from dask.utils import format_bytes

from ..errors import StoreError
from ..jobs.reports import find_status
from ..plan.show import as_text, name_count, show_seconds
from ..store import StoredMatrix, open_matrix
from .failures import DONE, FAILED, escape, show
from .options import COMMON_OPTIONS

_ARGUMENTS = ("routine", "alpha", "beta", "op_a", "op_b", "uplo")
_AGAIN = "the same call of multiply_files or rank_k_files"


@click.command(
    params=[click.Argument(["path"]), *COMMON_OPTIONS], short_help="Describe a matrix."
)
def info(path: str, as_json: bool) -> None:
    """Print shape, dtype, chunks and origin of a stored matrix."""
    found = _describe_matrix(path)
    rows = [(name, escape(_spell(name, x))) for name, x in found.items()]
    show(json.dumps(found) if as_json else as_text(rows))


def _spell(name: str, value: Any) -> str:
    if not value and value != 0:
        return "none"
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    if name == "provenance":
        with suppress(KeyError, TypeError, ValueError):
            return _tell_origin(value)
        return "not written by twom-dist"
    return str(format_bytes(value) if name == "bytes" else value)


def _describe_matrix(path: str) -> dict[str, Any]:
    matrix = _open(path)
    rows, columns = matrix.shape
    there, whole = matrix.count_chunks()
    provenance = matrix.provenance()
    if provenance.get("made", {}).get("uplo", "full") != "full":
        # Those of the triangle that was not asked for.
        whole -= (whole - isqrt(whole)) // 2
    return {
        "path": matrix.path,
        "member": matrix.location.member,
        "format": matrix.location.format,
        "shape": (rows, columns, 2)[: 2 + matrix.pairs],
        "dtype": matrix.parts.name,
        "chunks": matrix.chunks,
        "bytes": rows * columns * matrix.dtype.itemsize,
        # They read as its fill value. HDF5 has both triangles of ours.
        "missing_chunks": max(0, whole - there),
        "provenance": provenance,
    }


def _open(path: str) -> StoredMatrix:
    """Open a matrix, or one of pairs."""
    try:
        return open_matrix(path)
    except StoreError as error:
        if error.code in ("matrix-shape", "no-matrix"):
            with suppress(StoreError):
                return open_matrix(path, True)
        raise


def _tell_origin(manifest: dict[str, Any]) -> str:
    made, accuracy = manifest["made"], manifest["accuracy"]
    count, taken = accuracy["num_moduli"], "the native product"
    if count:
        taken = f"{accuracy['method']}, {name_count(count, 'modulus', 'moduli')}"
    told = ", ".join(f"{x} {made[x]}" for x in _ARGUMENTS if x in made)
    inputs = [
        f"{name} {path}::{member}" if member else f"{name} {path}"
        for name, (path, member, *_) in manifest["inputs"].items()
    ]
    inputs += [f"{name} {path}" for name, path in manifest["vectors"].items()]
    return (
        f"twom_dist {made['twom_dist']}, complete: {told}, {', '.join(inputs)}, "
        f"{accuracy['asked']} ({taken}), error up to "
        f"{accuracy['error_bound']:.1e} {accuracy['relative_to']}"
    )


@click.command(
    params=[click.Argument(["output"], metavar="C"), *COMMON_OPTIONS],
    short_help="Tell how far a job is.",
)
def status(output: str, as_json: bool) -> None:
    """Tell how far the job is that writes C: tiles, speed and time left.

    It may run on any host that sees the same files. For a stopped job it prints the
    command that continues it. The exit code is 0 if C is finished, 1 if not, and 2 if
    no job has begun it.
    """
    found = find_status(output)
    rows = _list_rows(found, time.time())
    text = "\n".join(f"{name:<8}  {escape(x)}" for name, x in rows.items())
    show(json.dumps(asdict(found)) if as_json else text)
    done = found.state == "finished"
    click.get_current_context().exit(DONE if done else FAILED)


def _list_rows(found: Any, now: float) -> dict[str, str]:
    rows = {"output": found.path, "state": found.state}
    if found.state == "finished":
        product = f"{found.routine}, {' x '.join(map(str, found.shape))} {found.dtype}"
        alien = "of another program, or a job's whose record is gone"
        return rows | {"product": product if found.routine else alien}
    running = found.state == "running"
    if running:
        rows["state"] += f" on {found.host}" if found.host else ""
        if found.since is not None:
            rows["state"] += f", for {show_seconds(max(0, now - found.since))}"
    if not found.tiles:
        return rows | {"tiles": "none yet: the job starts, or checks its data"}
    if running and found.phase:
        rows["phase"] = found.phase
    rows["tiles"] = f"{found.done} of {found.tiles}"
    if found.last is not None:
        rows["tiles"] += f", the last {show_seconds(max(0, now - found.last))} ago"
    if found.tiles_per_second is not None:
        rows["speed"] = f"{60 * found.tiles_per_second:.3g} tiles a minute"
    multiplies = rows.get("phase", "multiplying") == "multiplying"
    if found.done == found.tiles and multiplies:
        rows["left"] = "the file itself is to be written"
    elif found.seconds_left is not None:
        left = show_seconds(found.seconds_left)
        rows["left"] = left if running else f"would take {left}"
    elif running:
        rows["left"] = "unknown before the first tile of this run"
    if not running:
        rows["continue"] = found.command or _AGAIN
    return rows
