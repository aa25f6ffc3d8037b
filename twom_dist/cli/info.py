"""``twom-dist info``: this installation and machine, or one stored matrix."""

import json
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from .failures import SentenceCommand, refusing
from .options import debug_option, json_option
from .streams import show

_PACKAGES = "twom-dist numpy dask distributed zarr numba onnxruntime"


@click.command(cls=SentenceCommand, short_help="Describe this machine, or a matrix.")
@click.argument("path", required=False)
@json_option
@debug_option
def info(path: str | None, as_json: bool, debug: bool) -> None:
    """Print versions, engine, int8 kernel, cores and BLAS, or describe a matrix."""
    with refusing():
        found = _describe_machine() if path is None else _describe_matrix(path)
    if as_json:
        show(json.dumps(found))
        return
    width = max(map(len, found))
    show("\n".join(f"{name:<{width}}  {_show(name, x)}" for name, x in found.items()))


def _show(name: str, value: Any) -> str:
    from dask.utils import format_bytes

    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    if name == "bytes":
        return str(format_bytes(value))
    if name == "provenance" and value:
        return _show_origin(value)
    return "none" if value in (None, {}) else str(value)


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
        # They read as zeros.
        "missing_chunks": whole - there,
        "provenance": matrix.provenance(),
    }


def _show_origin(manifest: dict[str, Any]) -> str:
    """Say what a complete output of ours was made of."""
    made = manifest["made"]
    arguments = ("routine", "alpha", "beta", "op_a", "op_b", "uplo", "method")
    told = ", ".join(f"{x} {made[x]}" for x in arguments if x in made)
    inputs = ", ".join(
        f"{name} {path}::{member}" if member else f"{name} {path}"
        for name, (path, member, *_) in manifest["inputs"].items()
    )
    return (
        f"twom_dist {made['twom_dist']}, complete: {told}, {inputs}, "
        f"{manifest['asked']}, error up to {manifest['error_bound']:.1e} "
        "||a_i|| ||b_j||"
    )


def _describe_machine() -> dict[str, Any]:
    import platform

    from dask.system import CPU_COUNT

    from ..kernels.cpu.int8_gemm import select_kernel
    from ..kernels.registry import engine_of, get_engine

    return {
        **{package: _version(package) for package in _PACKAGES.split()},
        "python": platform.python_version(),
        "engine": get_engine(engine_of("auto")).name,
        "int8 kernel": select_kernel(),
        "cores": CPU_COUNT,
        "BLAS": _describe_blas(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _describe_blas() -> str:
    """Name the BLAS that NumPy calls, and the CPU type that it was built for."""
    import numpy as np
    from threadpoolctl import threadpool_info

    # A BLAS is loaded when it is first called.
    np.ones((2, 2)) @ np.ones((2, 2))
    return "; ".join(
        f"{x['internal_api']} {x['version']}, "
        f"{x.get('architecture', 'unknown core type')}, {x['num_threads']} threads"
        for x in threadpool_info()
        if x["user_api"] == "blas"
    )
