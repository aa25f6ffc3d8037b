"""The doctor: checks of engines, GPU, dask-cuda and workers."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from platform import machine, python_version
from typing import Any, Literal

import numpy as np
from dask.system import CPU_COUNT

from ..auto.chips import chip_of
from ..config import check_settings
from ..errors import INSTALL_CUDA, EngineUnavailableError, TwomError
from ..kernels import chip_files
from ..kernels.family import convert
from ..kernels.registry import load_engine
from ..plan.show import as_text, name_count
from ..problem.arguments import checked
from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.problem import of_arrays
from ..run.prepared import compute
from ..testing import random_matrix
from ..tiles.routine import ROUTINES
from ..typing import EngineName
from .client import check_client, current_client

# If releases of these differ, processes cannot read each other's messages or tasks.
_MUST_AGREE = ("python", "dask", "distributed", "twom_dist")
_PACKAGES = ("twom_dist", "numpy", "dask", "zarr", "numba")
_X86 = ("x86_64", "AMD64")
_SHAPE = (24, 40, 257)  # m, n, k: where int8 products saturate, many such sums do

Status = Literal["ok", "warning", "failure"]


@dataclass(frozen=True)
class Finding:
    """One line of a report, with words like an error's problem and remedy.

    A warning says that something is slow, a failure that products fail or may be wrong.
    """

    name: str
    status: Status
    found: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.found}. {self.advice}." if self.advice else self.found


@dataclass(frozen=True, repr=False)
class Report:
    """Findings of `doctor`, printed as one line each."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True if no finding is a failure."""
        return all(finding.status != "failure" for finding in self.findings)

    def __repr__(self) -> str:
        # As wide as the longest status.
        return as_text([(f"{x.status:<7}", x.name, str(x)) for x in self.findings])


@checked
def doctor(client: Any = None) -> Report:
    """Check this installation: engines, GPU, dask-cuda and workers.

    Parameters
    ----------
    client : distributed.Client, optional
        Default: the current client. Without a client no workers are checked.

    Returns
    -------
    Report
        Print it for one line per finding; `ok` is True if none is a failure.

    Raises
    ------
    ArgumentError
        If `client` is not a client or is an asynchronous one. Anything missing or
        broken becomes a finding, not an error.

    See Also
    --------
    tune : Measure the sizes that `doctor` calls not measured.
    local_cluster : Start workers.

    Notes
    -----
    Engines must be exact, dask-cuda must import, and workers must have the same
    packages. With GPUs, this creates a CUDA context in this process: start local
    clusters first.

    Examples
    --------
    >>> import twom_dist as td
    >>> report = td.doctor()
    >>> print(report.findings[1])
    exact, to the last bit
    >>> report.ok
    True
    """
    client = current_client() if client is None else client
    check_client(client)
    findings = [*run("installation", name_versions)]
    findings += run("settings", check_settings)
    findings += run("engine cpu", check_engine, "cpu")
    findings += run("AMX", check_amx)
    findings += run("method auto", check_sizes, "cpu")
    findings += run("GPU", check_gpu)
    findings += run("dask-cuda", check_dask_cuda)
    if client is not None:
        findings += run("workers", check_workers, client)
    return Report(tuple(findings))


def run(name: str, check: Callable[..., Any], *of: Any) -> Iterator[Finding]:
    """Run a check; turn any error into a finding: broken packages raise anything."""
    try:
        yield from check(*of) or ()
    except TwomError as error:
        yield Finding(name, "failure", error.problem, error.remedy)
    except Exception as error:
        cause = error.__cause__ or error
        text = f"the check ended in {type(cause).__name__}: {cause}".splitlines()[0]
        yield Finding(name, "failure", text, "Reinstall what it names, or report it")


def name_versions() -> Iterator[Finding]:
    """Name the packages, their releases and the kernel that computes products."""
    load_engine("cpu")  # names Numba's errors
    from ..kernels.cpu.products.multiply import name_kernel
    from ..kernels.cpu.units import has_vnni

    releases = [f"{name} {import_module(name).__version__}" for name in _PACKAGES]
    python = f"Python {python_version()}"
    kernel, cores = name_kernel(), name_count(CPU_COUNT, "core")
    if not has_vnni():
        slower = "no VNNI: products of doubles are slower than NumPy's"
        other = f"whose speed on {machine()} nobody has measured"
        kernel += f" ({slower if machine() in _X86 else other})"
    int8 = f"int8 products by {kernel} on {cores}"
    yield Finding("installation", "ok", ", ".join([*releases, python, int8]))


def check_engine(name: EngineName, xp: Any = np) -> Iterator[Finding]:
    """Compare a product, bit for bit, with the same product in Python's integers."""
    m, n, k = _SHAPE
    a, b = random_matrix(m, k, seed=1), random_matrix(k, n, seed=2)
    product = convert(_multiply(xp.asarray(a), xp.asarray(b), name), "numpy")
    if product.tobytes() == _multiply(a, b, "reference").tobytes():
        yield Finding(f"engine {name}", "ok", "exact, to the last bit")
    else:
        advice = "Update the driver, test this machine's memory, or report it"
        yield Finding(f"engine {name}", "failure", "its products are not exact", advice)


def check_amx() -> Iterator[Finding]:
    """Tell why AMX is not used, if the CPU has it."""
    load_engine("cpu")  # names Numba's errors
    from ..kernels.cpu.products.multiply import explain_no_amx

    if why := explain_no_amx():
        advice = "VNNI multiplies, slower, to the same bits; update Linux or report it"
        yield Finding("AMX", "warning", f"it is not used: {why}", advice)


def _multiply(a: Any, b: Any, engine: EngineName) -> Any:
    terms = Terms(ROUTINES["gemm"], Choice.of(engine=engine))
    return compute(of_arrays(Call(terms, a, b)))


def check_sizes(engine: EngineName) -> Iterator[Finding]:
    """Tell whether the sizes from which "auto" takes int8 were measured here."""
    chip = chip_of(engine)
    told = chip_files.read(chip.name)
    since = f"measured on {told['date']}" if told else "not measured"
    advice = "Run twom-dist tune to measure from which n int8 is faster" * (not told)
    yield Finding("method auto", "ok", f"{chip.name}, {since}", advice)


def check_gpu() -> Iterator[Finding]:
    """Open the device as the CUDA engine does, multiply on it and serialise a block."""
    from distributed.diagnostics.nvml import device_get_count

    load_engine("cuda")  # names Numba's errors
    from ..kernels.cuda.device import open_device

    try:
        device = open_device()
    except EngineUnavailableError as error:
        if device_get_count():
            yield Finding("GPU", "warning", error.problem, error.remedy)
        else:
            yield Finding("GPU", "ok", f"none: {error.problem}")
        return
    import cupy

    runtime = cupy.cuda.runtime
    count, driver = runtime.getDeviceCount(), runtime.driverGetVersion()
    names = {runtime.getDeviceProperties(x)["name"].decode() for x in range(count)}
    models = f"{name_count(count, 'GPU')}, {', '.join(sorted(names))}"
    newest = f"{driver // 1000}.{driver % 1000 // 10}"  # 1000 major + 10 minor
    found = f"{models}; a driver for CUDA up to {newest}; CuPy {cupy.__version__}"
    yield Finding("GPU", "ok", found)
    yield from run("cuBLAS", check_cublas, cupy.cuda, device.capability())
    yield from run("int8 products", check_tiles, device)
    yield from run("engine cuda", check_engine, "cuda", cupy)
    yield from run("method auto", check_sizes, "cuda")
    yield from run("CuPy blocks", check_blocks, cupy.arange(16))


def check_cublas(cuda: Any, capability: int) -> Iterator[Finding]:
    """Tell of releases whose int8 products NVIDIA's notes call wrong for some shapes.

    On a GPU of 10.x all may be cuBLAS's, and before 13.10 wrong for split k.
    """
    # 10000 major + 100 minor + patch; before 12, 1000 major.
    version = cuda.cublas.getVersion(cuda.device.get_cublas_handle())
    major, minor, patch = version // 10000, version // 100 % 100, version % 100
    found = f"{major}.{minor}.{patch}" if major >= 12 else str(version)
    if version != 130000 and (capability // 10 != 10 or version >= 131000):
        yield Finding("cuBLAS", "ok", found)
        return
    found += " may multiply int8 wrongly for some shapes, by NVIDIA's release notes"
    newer = "pip install -U nvidia-cublas"
    advice = f"Install 13.10 or newer with CuPy for CUDA 13: {newer}"
    yield Finding("cuBLAS", "warning", found, advice)


def check_tiles(device: Any) -> Iterator[Finding]:
    """Tell why cuBLAS multiplies where a kernel in cuTile should."""
    from ..kernels.cuda.tile_check import explain_no_tiles

    if why := explain_no_tiles(device):
        advice = "A driver for CUDA 13.3 or newer with libnvidia-tileiras may help"
        yield Finding("int8 products", "warning", f"by cuBLAS: {why}", advice)


def check_blocks(block: Any) -> Iterator[Finding]:
    """Serialise a block as dask does to transfer or spill it, through numba-cuda."""
    from distributed.protocol import serialize

    serialize(block, serializers=["dask"], on_error="raise")
    yield Finding("CuPy blocks", "ok", "dask sends and spills them")


def check_dask_cuda() -> Iterator[Finding]:
    """Import dask-cuda, which gives each worker its own GPU."""
    from distributed.diagnostics.nvml import device_get_count

    if not device_get_count():
        return
    try:
        import dask_cuda
    except ImportError as error:
        found = f"it cannot be imported ({error}), so no worker gets its own GPU"
        advice = f"Install it with {INSTALL_CUDA}"
        yield Finding("dask-cuda", "warning", found, advice)
    else:
        yield Finding("dask-cuda", "ok", str(dask_cuda.__version__))


def check_workers(client: Any) -> Iterator[Finding]:
    """Count the workers, and compare them with this process."""
    threads, address = client.nthreads(), client.scheduler.address
    if not threads:
        advice = "Start some with `dask worker` or `dask cuda worker`"
        yield Finding("workers", "failure", f"there are none at {address}", advice)
        return
    side_by_side = name_count(sum(threads.values()), "thread")
    found = f"{len(threads)} at {address}, {side_by_side} in all"
    yield Finding("workers", "ok", found)
    yield from compare_processes(client)
    yield from check_profilers(client, sys.version_info[:2])


def check_profilers(client: Any, python: tuple[int, ...]) -> Iterator[Finding]:
    """Tell of workers that dask's profiler may stop."""
    from .startup import SAFE_WITH_PROFILER

    # A lambda is sent by value: workers may lack this package.
    found = client.run(lambda dask_worker: "profile" in dask_worker.periodic_callbacks)
    if any(found.values()) and python < SAFE_WITH_PROFILER:
        text = "dask's profiler may stop them for ever under Python 3.11"
        setting = "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False"
        advice = f"Start scheduler and workers with {setting}, or use Python 3.12"
        yield Finding("workers", "warning", text, advice)


def compare_processes(client: Any) -> list[Finding]:
    """Compare the packages installed here, at the scheduler and at the workers.

    First come failures: differences that make messages unreadable or change results.
    """
    versions = client.get_versions(check=False, packages=["twom_dist"])
    here = versions["client"]["packages"]
    told = {"the scheduler": versions["scheduler"], **versions["workers"]}
    findings = []
    for package in sorted(here, key=lambda x: (x not in _MUST_AGREE, x)):
        own = _find_release(here, package)
        found = {x: _find_release(told[x]["packages"], package) for x in told}
        unlike = [place for place in found if found[place] != own]
        if unlike:
            status: Status = "failure" if package in _MUST_AGREE else "warning"
            text = f"{package} is {own} here and {found[unlike[0]]} at {unlike[0]}"
            text += f" and {len(unlike) - 1} more" if len(unlike) > 1 else ""
            advice = "Install the same release everywhere"
            findings.append(Finding("packages", status, text, advice))
    same = f"the same in all {1 + len(told)} processes"
    return findings or [Finding("packages", "ok", same)]


def _find_release(packages: dict[str, str | None], name: str) -> str:
    release = packages.get(name) or "missing"
    # Patches of one release of Python read each other's messages.
    return ".".join(release.split(".")[:2]) if name == "python" else release
