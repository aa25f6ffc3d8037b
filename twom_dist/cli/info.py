"""``twom-dist info``: this installation and machine, or one stored matrix."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click
import numpy as np
from dask.system import CPU_COUNT
from dask.utils import format_bytes
from threadpoolctl import threadpool_info

from .options import COMMON_OPTIONS
from .streams import show

_PACKAGES = "twom-dist numpy dask distributed zarr numba onnxruntime"
_ARGUMENTS = ("routine", "alpha", "beta", "op_a", "op_b", "uplo", "method")


@click.command(
    params=[click.Argument(["path"], required=False), *COMMON_OPTIONS],
    short_help="Describe this machine, or a matrix.",
)
def info(path: str | None, as_json: bool) -> None:
    """Print versions, engine, int8 kernel, cores and BLAS, or describe a matrix."""
    found = _describe_machine() if path is None else _describe_matrix(path)
    if as_json:
        show(json.dumps(found))
        return
    width = max(map(len, found))
    show("\n".join(f"{name:<{width}}  {_show(name, x)}" for name, x in found.items()))


def _show(name: str, value: Any) -> str:
    if not value and value != 0:
        return "none"
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    if name == "provenance":
        return _tell_origin(value)
    return str(format_bytes(value) if name == "bytes" else value)


def _describe_matrix(path: str) -> dict[str, Any]:
    from ..store import open_matrix

    matrix = open_matrix(path)
    rows, columns = matrix.shape
    there, whole = matrix.count_chunks()
    return {
        "path": matrix.path,
        "member": matrix.location.member,
        "format": matrix.location.format,
        "shape": matrix.shape,
        "dtype": matrix.dtype.name,
        "chunks": matrix.chunks,
        "bytes": rows * columns * matrix.dtype.itemsize,
        # They read as its fill value.
        "missing_chunks": whole - there,
        "provenance": matrix.provenance(),
    }


def _tell_origin(manifest: dict[str, Any]) -> str:
    """Say what a complete output of ours was made of."""
    made, bound = manifest["made"], manifest["error_bound"]
    told = ", ".join(f"{x} {made[x]}" for x in _ARGUMENTS if x in made)
    inputs = ", ".join(
        f"{name} {path}::{member}" if member else f"{name} {path}"
        for name, (path, member, *_) in manifest["inputs"].items()
    )
    return (
        f"twom_dist {made['twom_dist']}, complete: {told}, {inputs}, "
        f"{manifest['asked']}, error up to {bound:.1e} ||a_i|| ||b_j||"
    )


def _describe_machine() -> dict[str, Any]:
    from ..kernels.cpu.int8_gemm import select_kernel
    from ..kernels.registry import engine_of, get_engine

    return {
        **{package: _find_version(package) for package in _PACKAGES.split()},
        "python": platform.python_version(),
        "engine": get_engine(engine_of("auto")).name,
        "int8 kernel": select_kernel(),
        "cores": CPU_COUNT,
        "BLAS": _describe_blas(),
    }


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        # As where the package runs from its sources.
        return None


def _describe_blas() -> str:
    """Name the BLAS that NumPy calls, and the CPU type that it was built for."""
    # A BLAS is loaded when it is first called.
    np.ones((2, 2)) @ np.ones((2, 2))
    return "; ".join(
        f"{x['internal_api']} {x['version']}, "
        f"{x.get('architecture', 'unknown core type')}, {x['num_threads']} threads"
        for x in threadpool_info()
        if x["user_api"] == "blas"
    )
