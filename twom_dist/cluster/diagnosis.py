"""The doctor: exact engines, a usable GPU, dask-cuda, and workers that agree."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

import numpy as np

from ..errors import EngineUnavailableError, TwomError
from ..execute import check_client, current_client
from ..routines import gemm
from ..testing import random_matrix
from ..typing import EngineName
from .nvml import Gpus, find_gpus
from .report import Finding, Report
from .workers import check_workers

# (m, n, k): on hardware whose int8 products saturate, many sums of so many terms do.
_SHAPE = (24, 40, 257)


def doctor(client: Any = None) -> Report:
    """Check the engines, the GPU, dask-cuda and the workers.

    The questions are: Are the products of the engines exact? Is a GPU usable? Can
    dask-cuda be imported, and are the versions that it asks for installed? Do the
    workers have the same packages as this process?

    Parameters
    ----------
    client : distributed.Client, optional
        Default: the current client. Without a client no workers are checked.

    Returns
    -------
    Report
        It prints one line for each finding; `ok` is true if none is a failure.

    Raises
    ------
    ArgumentError
        For what is not a client, and for an asynchronous one. What is missing or broken
        is no error but a finding.

    Notes
    -----
    If there are GPUs, a CUDA context is made in this process; start local clusters
    before that.

    Examples
    --------
    >>> import twom_dist as td
    >>> report = td.doctor()
    >>> print(report.findings[0])
    exact...
    """
    client = current_client() if client is None else client
    check_client(client)
    gpus = find_gpus()
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "engine cpu": partial(check_engine, "cpu"),
        "GPU": partial(check_gpu, gpus),
        "dask-cuda": partial(check_dask_cuda, gpus),
    }
    if client is not None:
        checks["workers"] = partial(check_workers, client)
    return Report(tuple(x for name, check in checks.items() for x in run(name, check)))


def run(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Turn whatever stops a check into a finding: broken packages raise anything."""
    try:
        yield from check()
    except TwomError as error:
        yield Finding(name, "failure", error.problem, error.remedy)
    except Exception as error:
        text = f"the check ended in {type(error).__name__}: {error}".splitlines()[0]
        advice = "Reinstall what it names, or report it"
        yield Finding(name, "failure", text, advice)


def check_engine(name: EngineName, xp: Any = np) -> Iterator[Finding]:
    """Compare a product with the one of Python's integers, bit for bit."""
    m, n, k = _SHAPE
    a, b = random_matrix(m, k, seed=1), random_matrix(k, n, seed=2)
    product = gemm(xp.asarray(a), xp.asarray(b), engine=name)
    product = product if xp is np else xp.asnumpy(product)
    if product.tobytes() == gemm(a, b, engine="reference").tobytes():
        yield Finding(f"engine {name}", "ok", "exact, to the last bit")
    else:
        advice = "Update the driver, test the memory of this machine, or report it"
        yield Finding(f"engine {name}", "failure", "its products are not exact", advice)


def check_gpu(gpus: Gpus) -> Iterator[Finding]:
    """Open the device as the CUDA engine does, multiply on it, and send a block."""
    if not gpus.visible:
        yield Finding("GPU", "ok", f"none, as {gpus.reason}")
        return
    from ..kernels.cuda.device import open_device

    try:
        open_device()
    except EngineUnavailableError as error:
        yield Finding("GPU", "warning", error.problem, error.remedy)
        return
    import cupy

    models = ", ".join(sorted({gpu.name for gpu in gpus.visible}))
    runs = "a driver for CUDA up to {}.{}".format(*gpus.cuda)
    found = f"{gpus.count}, {models}; {runs}; CuPy {cupy.__version__}"
    yield Finding("GPU", "ok", found)
    yield from run("engine cuda", partial(check_engine, "cuda", cupy))
    yield from run("CuPy blocks", partial(check_blocks, gpus, cupy.arange(16)))


def check_blocks(gpus: Gpus, block: Any) -> Iterator[Finding]:
    """Serialise a block as dask does to transfer or spill it."""
    from distributed.protocol import serialize

    try:
        serialize(block, serializers=["dask"], on_error="raise")
    except Exception as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        found = f"dask cannot send, gather or spill them ({reason})"
        advice = f"Install numba-cuda with {gpus.install}"
        yield Finding("CuPy blocks", "failure", found, advice)
    else:
        yield Finding("CuPy blocks", "ok", "dask sends and spills them")


def check_dask_cuda(gpus: Gpus) -> Iterator[Finding]:
    """Import dask-cuda, and see whether the versions that it asks for are installed."""
    if not gpus.visible:
        return
    try:
        import dask_cuda
    except ImportError as error:
        found = f"it cannot be imported ({error}), so workers get no GPU of their own"
        advice = f"Install it with {gpus.install}"
        yield Finding("dask-cuda", "warning", found, advice)
        return
    unmet = [*find_unmet("dask-cuda"), *find_unmet("rapids-dask-dependency")]
    for asked in unmet:
        found = f"it asks for {asked}, which is not what is installed"
        yield Finding("dask-cuda", "warning", found, f"Run pip install '{asked}'")
    if not unmet:
        yield Finding("dask-cuda", "ok", str(dask_cuda.__version__))


def find_unmet(package: str) -> Iterator[str]:
    """List the requirements of a package, if it is installed, that are not met."""
    from packaging.requirements import Requirement

    wanted: list[str] = []
    with suppress(PackageNotFoundError):
        wanted += requires(package) or ()
    for requirement in map(Requirement, wanted):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        with suppress(PackageNotFoundError):
            if requirement.specifier.contains(version(requirement.name), True):
                continue
        yield f"{requirement.name}{requirement.specifier}"
