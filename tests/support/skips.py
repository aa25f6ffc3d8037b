"""Skips that a run may have: how many, and only where what they miss is missing.

A run with any other is red, however many tests passed: nobody reads a list of skips.
"""

import os
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Skips:
    """Tests of a file or folder, at most so many, that do without something."""

    where: str
    most: int
    is_missing: Callable[[], bool]


def _package(*names):
    return lambda: any(_is_absent(name) for name in names)


def _is_absent(name):
    try:
        return find_spec(name) is None
    except ModuleNotFoundError:  # its parent is
        return True


def _program(name):
    return lambda: shutil.which(name) is None


def is_x86_linux():
    """Tell whether the instructions of x86 can be assembled, and trap as on Linux."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def is_not_x86_linux():
    return not is_x86_linux()


def _is_not_linux():
    return not hasattr(os, "memfd_create")


def _has_no_slurm():
    from tests.support.slurm import why_not  # takes what only the whole suite has

    return why_not() is not None


def _has_no_arm():
    from tests.support.emulator import READY

    return not READY.exists()


EXPECTED = (
    # A driver, a device, its capability, packages: each says itself what it misses.
    Skips("tests/gpu/", 100, lambda: True),
    Skips("tests/run/slurm/", 1, _has_no_slurm),
    Skips("tests/nightly/batch/test_slurm_jobs.py", 4, _has_no_slurm),
    Skips("tests/run/commands/test_scripts.py", 1, _program("shellcheck")),
    Skips("tests/check/store/test_store_work_folder.py", 3, lambda: os.geteuid() != 0),
    Skips("tests/check/workers/test_local_cluster.py", 1, _package("dask_cuda")),
    # Torch and JAX take gigabytes.
    Skips("tests/check/interop/test_exchange.py", 2, _package("torch", "jax")),
    Skips("tests/run/docs/test_docs.py", 1, _package("torch")),
    # Below: programs that CI installs, and packages that are for some machines alone,
    # or too new for the oldest dependencies.
    Skips("tests/run/cuda_on_host/", 1500, _program("g++")),
    Skips("tests/run/cuda_on_host/test_compile.py", 1, _package("cuda.core")),
    Skips("tests/run/cuda_on_host/test_compile.py", 1, _package("cuda.tile")),
    Skips("tests/nightly/architectures/test_compile.py", 1, _package("cuda.core")),
    Skips("tests/nightly/architectures/test_arm.py", 3, _has_no_arm),
    Skips("tests/run/cuda_on_host/test_products.py", 1, _package("cupy")),
    Skips("tests/run/cuda_on_host/test_host_share.py", 1, _package("cupy")),
    Skips("tests/check/workers/test_transport.py", 100, _is_not_linux),
    Skips("tests/run/workers/test_transport_on_workers.py", 100, _is_not_linux),
    Skips("tests/check/kernels/test_cupy.py", 1, _package("cupy")),
    Skips("tests/check/kernels/test_products.py", 60, is_not_x86_linux),
    Skips("tests/check/kernels/test_amx.py", 12, is_not_x86_linux),
    Skips("tests/nightly/users_types/test_user_types.py", 1, _package("mypy")),
    Skips("tests/", 1, _package("dask.array._array_expr")),
    Skips(
        "tests/run/docs/test_docs.py",
        10,
        _package("s3fs", "xarray", "quimb", "opt_einsum"),
    ),
)


def find_unexpected(node_ids, allowed=EXPECTED):
    """List files with more skipped tests than this machine is a reason for."""
    left = Counter(node_id.partition("::")[0] for node_id in node_ids)
    for expected in allowed:
        if not expected.is_missing():
            continue
        most = expected.most
        for path in sorted(x for x in left if x.startswith(expected.where)):
            taken = min(most, left[path])
            left[path] -= taken
            most -= taken
    return sorted((+left).elements())
