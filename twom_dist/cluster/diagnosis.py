"""The doctor: exact engines, a usable GPU, dask-cuda, and workers that agree."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

import numpy as np

from ..errors import ArgumentError, EngineUnavailableError, TwomError
from ..execute import current_client
from ..kernels.registry import get_engine
from ..moduli import residue_system
from ..typing import Array
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
        For an asynchronous client. What is missing or broken is no error but a finding.

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
    if client is not None and client.asynchronous:
        raise ArgumentError(
            "doctor waits for the workers, and the client is asynchronous",
            "Give a client made without asynchronous=True",
            "asynchronous-client",
        )
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


def check_engine(name: str, xp: Any = np) -> Iterator[Finding]:
    """Compare a product with the exact one of Python's integers, bit for bit."""
    title = f"engine {name}"
    if _multiply(name, xp).tobytes() == _multiply("reference").tobytes():
        yield Finding(title, "ok", "exact, to the last bit")
    else:
        advice = "Update the driver, test the memory of this machine, or report it"
        yield Finding(title, "failure", "its products are not exact", advice)


def _multiply(engine_name: str, xp: Any = np) -> Array:
    """Multiply the same two matrices through an engine."""
    engine, system = get_engine(engine_name), residue_system("2m", 16)
    m, n, k = _SHAPE
    real, imaginary = np.random.default_rng(2026).uniform(-1, 1, (2, m + n, k))
    x, y = np.split(real + 1j * imaginary, [m])
    # |x 2^52| <= 2^52.5: k products of two stay far below the product of the moduli.
    rows, columns = xp.full(m, 52, np.int32), xp.full(n, 52, np.int32)
    with engine.task():
        left = engine.encode(xp.asarray(x), rows, system, side="left")
        right = engine.encode(xp.asarray(y), columns, system, side="right")
        residues = engine.multiply(left, right, system)
        product = engine.decode(residues, rows, columns, system, np.complex128)
    result: Array = product if xp is np else xp.asnumpy(product)
    return result


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
    from distributed.protocol import deserialize, serialize

    try:
        deserialize(*serialize(block, serializers=["dask"], on_error="raise"))
    except Exception as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        found = f"dask cannot send, gather or spill them ({reason})"
        advice = f"Install numba-cuda with {_install(gpus)}"
        yield Finding("CuPy blocks", "failure", found, advice)
    else:
        yield Finding("CuPy blocks", "ok", "dask sends and spills them")


def check_dask_cuda(gpus: Gpus) -> Iterator[Finding]:
    """Import dask-cuda, and see whether the versions that it asks for are installed."""
    name = "dask-cuda"
    if not gpus.visible:
        return
    try:
        import dask_cuda
    except ImportError as error:
        found = f"it cannot be imported ({error}), so workers get no GPU of their own"
        yield Finding(name, "warning", found, f"Install it with {_install(gpus)}")
        return
    clashes = [*find_clashes(name), *find_clashes("rapids-dask-dependency")]
    for found, advice in clashes:
        yield Finding(name, "warning", found, advice)
    if not clashes:
        yield Finding(name, "ok", str(dask_cuda.__version__))


def find_clashes(package: str) -> Iterator[tuple[str, str]]:
    """List the unmet requirements of an installed package, with advice."""
    from packaging.requirements import Requirement

    if _find_version(package) is None:
        return
    for wanted in map(Requirement, requires(package) or ()):
        there = _find_version(wanted.name)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        if there is None or not wanted.specifier.contains(there, prereleases=True):
            asked = f"{wanted.name}{wanted.specifier}"
            found = f"{package} asks for {asked}, and {there or 'none'} is installed"
            yield found, f"Run pip install '{asked}'"


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _install(gpus: Gpus) -> str:
    return f"pip install 'twom-dist[{gpus.extra}]'"
