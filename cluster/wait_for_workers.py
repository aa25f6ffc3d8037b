"""Wait for the workers of all nodes: wait_for_workers.py ADDRESS NODES SECONDS MESSAGE.

A worker's name tells how many workers its node will have: worker.sh names them
``NODE:COUNT``, and dask adds ``-0``, ``-1`` and so on if there are several. In MESSAGE,
%s stands for the sentence that says what is missing.
"""

import logging
import sys
import time
from collections.abc import Iterable


def count_workers(names: Iterable[str]) -> tuple[int, int, int]:
    """Return the numbers of workers and of nodes present, and of workers expected."""
    parts = [name.rpartition(":") for name in names]
    expected = {node: int(count.partition("-")[0]) for node, _, count in parts}
    return len(parts), len(expected), sum(expected.values())


def wait_for_workers(address: str, nodes: int, seconds: float) -> str:
    """Return "" once all workers have come, or a sentence about the missing ones."""
    from distributed import Client

    end = time.monotonic() + seconds
    with Client(address, timeout=seconds) as client:
        while True:
            names = client.run_on_scheduler(
                lambda dask_scheduler: [
                    str(worker.name) for worker in dask_scheduler.workers.values()
                ]
            )
            workers, present, expected = count_workers(names)
            if present == nodes and workers == expected:
                return ""
            if time.monotonic() > end:
                share = f"{workers} of {expected}"
                if present < nodes:
                    share = f"those of {present} of {nodes} nodes"
                return f"of the workers, {share} have come after {seconds:g} s"
            time.sleep(0.3)


if __name__ == "__main__":
    logging.disable()
    try:
        sentence = wait_for_workers(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    except Exception as error:
        sentence = f"the scheduler does not answer ({error})"
    if sentence:
        sys.exit(sys.argv[4].replace("%s", sentence, 1))
