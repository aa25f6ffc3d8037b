"""``twom-dist info``: one stored matrix."""

import json
from math import isqrt
from typing import Any

import click
from dask.utils import format_bytes

from .failures import escape, show
from .options import COMMON_OPTIONS

_ARGUMENTS = ("routine", "alpha", "beta", "op_a", "op_b", "uplo")


@click.command(
    params=[click.Argument(["path"]), *COMMON_OPTIONS],
    short_help="Describe a matrix.",
)
def info(path: str, as_json: bool) -> None:
    """Print shape, dtype, chunks and origin of a stored matrix."""
    found = _describe(path)
    if as_json:
        show(json.dumps(found))
        return
    width = max(map(len, found))
    rows = {name: escape(_show(name, x)) for name, x in found.items()}
    show("\n".join(f"{name:<{width}}  {text}" for name, text in rows.items()))


def _show(name: str, value: Any) -> str:
    if not value and value != 0:
        return "none"
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    if name == "provenance":
        try:
            return _tell_origin(value)
        except (KeyError, TypeError, ValueError):
            return "notes that no job of ours has written"
    return str(format_bytes(value) if name == "bytes" else value)


def _describe(path: str) -> dict[str, Any]:
    from ..store import open_matrix

    matrix = open_matrix(path)
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
        "shape": matrix.shape,
        "dtype": matrix.dtype.name,
        "chunks": matrix.chunks,
        "bytes": rows * columns * matrix.dtype.itemsize,
        # They read as its fill value. HDF5 has both triangles of ours.
        "missing_chunks": max(0, whole - there),
        "provenance": provenance,
    }


def _tell_origin(manifest: dict[str, Any]) -> str:
    """Say what a complete output of ours was made of."""
    made, accuracy = manifest["made"], manifest["accuracy"]
    taken = f"{accuracy['method']}, {accuracy['num_moduli']} moduli"
    if not accuracy["num_moduli"]:
        taken = "the native product"
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
