"""``twom-dist info``: this installation and machine, or one stored matrix."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from .failures import SentenceCommand, refusing
from .options import debug_option

_PACKAGES = "twom-dist numpy dask distributed zarr numba onnxruntime"

Row = tuple[str, str]


@click.command(cls=SentenceCommand, short_help="Describe this machine, or a matrix.")
@click.argument("path", required=False)
@debug_option
def info(path: str | None, debug: bool) -> None:
    """Print versions, engine, int8 kernel, cores and BLAS, or describe a matrix."""
    with refusing():
        rows = list(_describe_machine() if path is None else _describe_matrix(path))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {value}")


def _describe_matrix(path: str) -> Iterator[Row]:
    from dask.utils import format_bytes

    from ..store import open_matrix

    matrix = open_matrix(path)
    rows, columns = matrix.shape
    yield "path", matrix.path
    if matrix.member is not None:
        yield "member", matrix.member
    yield "format", matrix.format
    yield "shape", f"{rows} x {columns}"
    yield "dtype", str(matrix.dtype)
    chunks = matrix.chunks
    yield "chunks", "stored whole" if chunks is None else f"{chunks[0]} x {chunks[1]}"
    yield "size", format_bytes(rows * columns * matrix.dtype.itemsize)
    there, whole = matrix.count_chunks()
    if there < whole:
        yield "missing", f"{whole - there} of {whole} chunks, which read as zeros"
    if made := matrix.provenance():
        yield from _describe_origin(made)


def _describe_origin(manifest: dict[str, Any]) -> Iterator[Row]:
    """Say what a complete output of ours was made of."""
    made = manifest["made"]
    arguments = ("routine", "alpha", "beta", "op_a", "op_b", "uplo", "method")
    told = ", ".join(f"{x} {made[x]}" for x in arguments if x in made)
    yield "made by", f"twom_dist {made['twom_dist']}, complete: {told}"
    for name, (path, member, *_) in manifest["inputs"].items():
        yield name, f"{path}::{member}" if member else path
    yield "accuracy", manifest["asked"]
    yield "error bound", f"{manifest['error_bound']:.1e} ||a_i|| ||b_j||"


def _describe_machine() -> Iterator[Row]:
    import platform

    from dask.system import CPU_COUNT

    from ..kernels.cpu.int8_gemm import select_kernel
    from ..kernels.registry import engine_of, get_engine

    for package in _PACKAGES.split():
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"
    yield "python", platform.python_version()
    yield "engine", get_engine(engine_of("auto")).name
    yield "int8 kernel", select_kernel()
    yield "cores", str(CPU_COUNT)
    yield from _describe_blas()


def _describe_blas() -> Iterator[Row]:
    """Name the BLAS that NumPy calls, and the CPU type that it was built for."""
    import numpy as np
    from threadpoolctl import threadpool_info

    # A BLAS is loaded when it is first called.
    np.ones((2, 2)) @ np.ones((2, 2))
    for library in threadpool_info():
        if library["user_api"] != "blas":
            continue
        core = library.get("architecture", "unknown core type")
        name, number = library["internal_api"], library["version"]
        yield "BLAS", f"{name} {number}, {core}, {library['num_threads']} threads"
