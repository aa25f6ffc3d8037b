"""`dask cuda worker` without GPUs: writes down what it gets, and starts CPU workers.

The options are those of dask-cuda 26.10 that the scripts use; it refuses others too.
"""

import asyncio
import json
import os
from pathlib import Path

import click


@click.group
def cuda() -> None:
    """Commands of dask-cuda."""


@cuda.command(name="worker")
@click.argument("scheduler")
@click.option("--protocol")
@click.option("--host")
@click.option("--interface")
@click.option("--name")
@click.option("--nthreads", type=int, default=1)
@click.option("--memory-limit", default="auto")
@click.option("--device-memory-limit")
@click.option("--rmm-pool-size")
@click.option("--set-rmm-allocator-for-libs", "libs", type=click.Choice(["cupy"]))
@click.option("--local-directory")
@click.option("--death-timeout")
@click.option("--dashboard/--no-dashboard", default=True)
@click.option("--dashboard-address", default=":0")
def worker(
    scheduler: str,
    name: str,
    device_memory_limit: str,
    rmm_pool_size: str,
    libs: str,
    **options: object,
) -> None:
    """Start one worker for each device, each with its own one first."""
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
    record = {
        "devices": devices,
        "limit": device_memory_limit,
        "pool": rmm_pool_size,
        "libs": libs,
        "protocol": options["protocol"],
        "memory": options["memory_limit"],
    }
    Path(f"{name.partition(':')[0]}.json").write_text(json.dumps(record))
    asyncio.run(_run(scheduler, name, devices, options))


async def _run(
    scheduler: str, name: str, devices: list[str], options: dict[str, object]
) -> None:
    from distributed import Nanny
    from distributed._signals import wait_for_signals

    nannies = [
        Nanny(
            scheduler,
            name=f"{name}-{i}" if len(devices) > 1 else name,
            env={"CUDA_VISIBLE_DEVICES": ",".join(devices[i:] + devices[:i])},
            **{**options, "memory_limit": 2**30},
        )
        for i in range(len(devices))
    ]
    await asyncio.gather(*nannies)
    await wait_for_signals()
    await asyncio.gather(*(nanny.close(timeout=10) for nanny in nannies))
