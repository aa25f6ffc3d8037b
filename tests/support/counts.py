"""What products cost in numbers that do not depend on the machine, and their record.

`test_counts.py`, `cuda_on_host/test_engine.py` and `test_host_share.py` compare; ``make
counts`` has them write what they find instead. A change that costs more, or less,
changes the record, and whoever reads the change sees it. Calls of functions differ by a
few between CPUs and versions of Python: of these the record is a bound.
"""

import json
import os
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.integers import random_integers
from tests.support.places import DATA
from tests.support.stages import count_stages
from twom_dist.kernels import get_engine

RECORD = DATA / "counts.json"
PACKAGE = str(Path(td.__file__).parent)
# Their calls depend on the machine's cores and kernels.
KERNELS = str(Path(PACKAGE, "kernels"))

Counts = dict[str, dict[str, Any]]


def count_plans():
    """Count the tasks, int8 products and bytes of plans, for clusters of 1 to 16."""
    tall, wide = (8192, 4096), (4096, 8192)
    cases = {
        "gemm": (td.gemm, tall, wide, {}),
        "gemm of 1e-8": (td.gemm, tall, wide, {"accuracy": 1e-8}),
        "gemm of float32": (td.gemm, tall, wide, {"dtype": "float32"}),
        "herk": (td.herk, tall, {}),
        "her2k, lower": (td.her2k, tall, tall, {"uplo": "lower"}),
    }
    names = ("num_tasks", "num_int8_gemms", "bytes_moved", "peak_worker_bytes")
    found = {}
    for name, (*given, options) in cases.items():
        for workers in (1, 4, 16):
            made = td.plan(*given, n_workers=workers, chunks=1024, **options)
            figures = {x: getattr(made, x) for x in names}
            found[f"plan of {name}, {workers} workers"] = figures
    on = {"chunks": 8192, "dtype": "complex128", "engine": "cuda"}
    for n, workers in ((65536, 8), (131072, 64), (262144, 128)):
        on |= {"n_workers": workers, "memory_limit": "125 GiB"}
        for name, made in (
            ("gemm", td.plan(td.gemm, (n, n), (n, n), **on)),
            ("herk", td.plan(td.herk, (n, n), **on)),
        ):
            figures = {x: getattr(made, x) for x in names}
            found[f"plan of {name} of {n}, {workers} GPUs"] = figures
    return found


def _lazy(m, n, chunk=16):
    return da.zeros((m, n), dtype=complex, chunks=chunk)


def count_graphs():
    a, b = _lazy(128, 96), _lazy(96, 128)
    stack = da.zeros((12, 8, 16), dtype=complex, chunks=(3, 4, 16))
    results = {
        "gemm": td.gemm(a, b),
        "gemm, 16 moduli": td.gemm(a, b, num_moduli=16),
        "herk": td.herk(a),
        "her2k, upper": td.her2k(a, a + 1, uplo="upper"),
        "herk of a stack": td.herk(stack),
        "einsum": td.einsum("ij,kj->ki", a, 2 * a, method="2m"),
    }
    return {
        f"tasks of {name}": dict(sorted(count_stages(x).items()))
        for name, x in results.items()
    }


def count_triangles():
    """Count the int8 products of cells by the part of them that is multiplied."""
    engine, a = get_engine("cpu"), _lazy(48, 32)
    results = {
        "herk": td.herk(a, num_moduli=8),
        "syrk": td.syrk(a, num_moduli=8),
        "syrk, upper": td.syrk(a, num_moduli=8, uplo="upper"),
        "her2k": td.her2k(a, a + 1, num_moduli=8),
    }
    found = {}
    for name, result in results.items():
        with mock.patch.object(engine, "multiply", wraps=engine.multiply) as multiply:
            result.compute(scheduler="sync")
        parts = (call.kwargs["triangle"] for call in multiply.call_args_list)
        found[f"cells of {name}"] = dict(sorted(Counter(parts).items()))
    return found


@contextmanager
def counting_calls(counts, apart=KERNELS):
    """Count the calls of this package's functions, but for those of a folder.

    With None, of all functions, those of C as well.
    """

    def note(frame, event, _):
        if apart is None:
            counts["calls"] += event in ("call", "c_call")
            return
        code = frame.f_code
        path = code.co_filename
        own = path.startswith(PACKAGE) and not path.startswith(apart)
        # Comprehensions are no functions from Python 3.12 on.
        if event == "call" and own and not code.co_name.startswith("<"):
            counts["calls"] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def count_warm(cases, name, apart=KERNELS):
    """Count what each case calls, once warm."""
    found = {}
    for case, run in cases.items():
        run()
        run()
        # Python's collector of garbage may call others meanwhile, but not each time.
        counts = [{"calls": 0} for _ in range(3)]
        for each in counts:
            with counting_calls(each, apart):
                run()
        found[name.format(case)] = min(counts, key=lambda x: x["calls"])
    return found


def _small():
    rng = np.random.default_rng(0)
    return rng.random((16, 16)) + 1j * rng.random((16, 16))


def count_calls():
    small, a, b = _small(), _lazy(256, 256), _lazy(256, 256)
    size, given = (2**15, 2**15), {"chunks": 1024, "n_workers": 16}
    cases = {
        "a plan of 32 x 32 tiles": lambda: td.plan(td.gemm, size, size, **given),
        "a plan of a triangle of 32": lambda: td.plan(td.herk, size, **given),
        "building 16 x 16 tiles": lambda: dict(td.gemm(a, b).__dask_graph__()),
        "building a triangle of 16": lambda: dict(td.herk(a).__dask_graph__()),
        "gemm of 16 x 16": lambda: td.gemm(small, small, num_moduli=16),
        "gemm of 16 x 16 by default": lambda: td.gemm(small, small),
        "matmul of 16 x 16": lambda: td.matmul(small, small),
    }
    return count_warm(cases, "calls of {}")


def count_host_calls():
    """Count what small products of the CPU call, all kernels by one thread.

    A call of a kernel that Numba compiled is none.
    """
    small = _small()
    cases = {
        "gemm": lambda: td.gemm(small, small, num_moduli=16),
        "gemm by default": lambda: td.gemm(small, small),
        "herk": lambda: td.herk(small, num_moduli=16),
        "matmul": lambda: td.matmul(small, small, num_moduli=16),
    }
    with dask.config.set({"twom-dist.threads": 1}):
        return count_warm(cases, "calls of {} of 16 x 16 on the CPU", os.devnull)


def count_launches(device, capability):
    """Count the launches of products on a device that lists them, warm.

    `capability`: that of the device, whose engine is that of NumPy arrays.
    """
    rng = np.random.default_rng(0)
    x = rng.random((48, 40)) + 1j * rng.random((48, 40))
    spread = x * rng.standard_normal(x.shape) ** 5
    stack = np.stack([x] * 3)
    samples = random_integers((3, 48, 40), "int8", pairs=True)
    cases = {
        "gemm": lambda: td.gemm(x, x, op_b="C", num_moduli=16),
        "gemm by default": lambda: td.gemm(x, x, op_b="C"),
        "gemm of open pairs": lambda: td.gemm(x, spread, op_b="C"),
        "herk of open pairs": lambda: td.herk(spread),
        "herk": lambda: td.herk(x, num_moduli=16),
        "gemm of a stack": lambda: td.gemm(stack, stack, op_b="C", num_moduli=16),
        "gemm of a stack by default": lambda: td.gemm(stack, stack, op_b="C"),
        "herk of a stack": lambda: td.herk(stack, num_moduli=16),
        "herk of a stack by default": lambda: td.herk(stack),
        "herk of samples": lambda: td.integers.herk(samples[0], pairs=True),
        "herk of a stack of samples": lambda: td.integers.herk(samples, pairs=True),
    }
    found = {}
    for name, run in cases.items():
        run()
        device.launched.clear()
        device.allocated.clear()
        run()
        launched = dict(sorted(Counter(device.launched).items()))
        if "samples" in name:
            launched["bytes"] = sum(device.allocated)
        found[f"launches of {name}, sm_{capability}"] = launched
    return found


def assert_as_recorded(counts):
    """Compare with the record, or write it where that is wanted."""
    recorded = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    if "TWOM_RECORD_COUNTS" in os.environ:
        recorded |= counts
        RECORD.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")
    changes = {}
    for name, found in counts.items():
        known = recorded.get(name, {})
        if found.keys() == known.keys() == {"calls"}:
            is_as_recorded = found["calls"] <= 1.1 * known["calls"]
        else:
            is_as_recorded = found == known
        if not is_as_recorded:
            changes[name] = f"{known} -> {found}"
    assert not changes, "if that is as it should be: make counts"
