"""Measure our own time for a small product: on a GPU that does nothing, or on the CPU.

python benchmarks/bench_host.py --on gpu --sides 64,512 --calls 2000 --most 12

All of this package runs, from the call to the last launch. On a GPU (with CuPy, without
a device) arrays and allocations are CuPy's, without memory, and the driver returns at
once: "ours" leaves out what CuPy's allocations and stand-ins take, asked for again, and
is an error beyond ``--most`` microseconds, which need a quiet core. On the CPU (``--on
cpu --sides 8``) one thread computes matrices so small that Python takes most of the
time. It is processor time: other work on the machine counts as far as it shares a core.
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from math import prod
from time import process_time
from typing import Any

import numpy as np

import twom_dist as td
from benchmarks.harness import Report, run
from twom_dist.kernels.cpu.threads import limit_threads
from twom_dist.testing import random_matrix


def bench_host(report: Report, args: Namespace) -> None:
    (_on_gpu if args.on == "gpu" else _on_cpu)(report, args)


def _on_gpu(report: Report, args: Namespace) -> None:
    from tests.support.cuda.idle import idle_device

    slow = []
    for n in args.sides:
        with idle_device() as device:
            for stack in ((), (256,)) if n <= 256 else ((),):
                A, B, out = (device.matrix(*stack, n, n) for _ in range(3))
                for name, call in _cases(A, B, out).items():
                    us, ours = device.shares(call, args.calls // 5)
                    shown = {"us": round(us, 1), "ours": round(ours, 1)}
                    report.add("host", routine=name, matrices=prod(stack), n=n, **shown)
                    slow += [name] if ours > args.most > 0 else []
    if slow:
        raise SystemExit(f"more than {args.most} us: {', '.join(slow)}")


def _cases(A: Any, B: Any, out: Any) -> dict[str, Callable[[], Any]]:
    return {
        "gemm": partial(td.gemm, A, B, num_moduli=16),
        "gemm into out": partial(td.gemm, A, B, num_moduli=16, out=out),
        "herk": partial(td.herk, A, num_moduli=16),
        "matmul": partial(td.matmul, A, B, num_moduli=16),
    }


def _on_cpu(report: Report, args: Namespace) -> None:
    with limit_threads(1):
        for n in args.sides:
            A, B = (random_matrix(n, n, seed=seed) for seed in (1, 2))
            cases = _cases(A, B, np.empty((n, n), complex))
            cases["gemm by default"] = partial(td.gemm, A, B)
            cases["matmul by default"] = partial(td.matmul, A, B, method="2m")
            for name, call in cases.items():
                us = round(1e6 * least_seconds(call, args.calls // 5), 1)
                report.add(f"host-{args.on}", routine=name, n=n, us=us)


def least_seconds(call: Callable[[], Any], count: int) -> float:
    """Return the processor time of a call, the least of five means of `count`."""
    call()
    call()
    found = []
    for _ in range(5):
        start = process_time()
        for _ in range(count):
            call()
        found.append((process_time() - start) / count)
    return min(found)


if __name__ == "__main__":
    run(__doc__, bench_host, sides=[64], on="gpu", calls=5000, most=0.0)
