"""The doctor: every check, and a finding for whatever is missing."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..errors import PlanError
from ..execute import current_client
from .nvml import find_gpus
from .report import Finding, Report, failure, refused


def doctor(client: Any = None) -> Report:
    """Check the installation, the machine and the workers.

    Engines and their int8 products (exact, and how fast), versions that do not go
    together, cores, memory, disk for spilling, and GPUs with all that dask needs for
    them; of a cluster, whether its workers agree with each other and with this process,
    and how fast a block gets from one to another.

    Parameters
    ----------
    client : distributed.Client, optional
        Default: the current client; without one, no workers are checked.

    Returns
    -------
    Report
        Prints as one line for each finding; `ok` is true if none is a failure.

    Raises
    ------
    TypeError
        For an asynchronous client. What is missing or broken is a finding.

    Notes
    -----
    With GPUs it makes a CUDA context in this process: start local clusters first.

    Examples
    --------
    >>> import twom_dist as td
    >>> report = td.doctor()
    >>> print(report.findings[0])
    cpu multiplies NumPy arrays...
    """
    from . import devices, engines, machine, packages, workers

    client = current_client() if client is None else client
    if client is not None and client.asynchronous:
        raise TypeError(
            "an asynchronous client was given; doctor waits for what the workers say: "
            "give a client made without asynchronous=True"
        )
    gpus = find_gpus()
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "engine": partial(engines.check_engine, gpus),
        "int8 product, cpu": engines.check_int8,
        "packages": packages.check_versions,
        "pins": packages.check_pins,
        "cores": machine.check_cores,
        "memory": machine.check_memory,
        "spill folder": machine.check_spilling,
        "GPU": partial(devices.check_gpus, gpus),
        "CuPy": partial(devices.check_cupy, gpus),
        "dask on GPUs": partial(devices.check_dask_on_gpus, gpus),
    }
    if client is not None:
        checks["workers"] = partial(workers.check_workers, client)
    return Report(tuple(x for name, check in checks.items() for x in _run(name, check)))


def _run(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Make a finding of whatever stops a check: broken packages raise anything."""
    try:
        yield from check()
    except PlanError as error:
        # A setting.
        yield refused(name, error)
    except Exception as error:
        lines = f"the check ended in {type(error).__name__}: {error}".splitlines()
        yield failure(name, lines[0], "reinstall what it names, or report it")
