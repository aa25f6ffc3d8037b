"""The memory and the traffic of a cluster's workers, and the cores that others use."""

import os
from collections import Counter
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import psutil


class Sampler(Thread):
    """Watch the processes of the first workers, the scheduler's state, and the machine.

    Bytes are the most that each worker took, and that all took together; `moved_bytes`
    is what those sent that live until the end, `other_cores` what other programs used.
    """

    def __init__(self, client: Any, seconds: float = 0.02) -> None:
        super().__init__(daemon=True)
        self._client, self._seconds = client, seconds
        found = client.run(os.getpid)
        self._processes = {name: psutil.Process(pid) for name, pid in found.items()}
        self._workers = client.cluster.scheduler.workers
        self._used = dict.fromkeys((psutil.Process(), *self._processes.values()), 0.0)
        self._ended = Event()
        self.process_bytes, self.managed_bytes = Counter(), Counter()
        self.total_bytes = self.spilled_bytes = self.moved_bytes = 0
        self.other_cores, self.paused = 0.0, False

    def taken(self) -> int:
        """Add up what the processes take now, and keep their peaks."""
        total = 0
        for name, process in self._processes.items():
            with suppress(psutil.NoSuchProcess):
                taken = process.memory_info().rss
                _raise(self.process_bytes, name, taken)
                total += taken
        return total

    def run(self) -> None:
        while not self._ended.wait(self._seconds):
            self.total_bytes = max(self.total_bytes, self.taken())
            for name, state in list(self._workers.items()):
                _raise(self.managed_bytes, name, state.nbytes)
                self.paused |= state.status.name == "paused"
                spilled = state.memory.spilled
                self.spilled_bytes = max(self.spilled_bytes, spilled)

    def _busy(self) -> float:
        """Return the seconds that cores have spent on other programs."""
        times = psutil.cpu_times()
        for process in self._used:
            # One that has died keeps its last count.
            with suppress(psutil.NoSuchProcess):
                self._used[process] = sum(process.cpu_times()[:2])
        everyone = sum(times) - times.idle - times.iowait - times.guest
        return float(everyone - sum(self._used.values()))

    def __enter__(self) -> "Sampler":
        self._sent = self._client.run(_sent)
        self._before = os.times().elapsed, self._busy()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()
        start, busy = self._before
        self.other_cores = (self._busy() - busy) / (os.times().elapsed - start)
        sent = self._client.run(_sent)
        self.moved_bytes = sum(x - self._sent.get(name, 0) for name, x in sent.items())


def _raise(peaks: Counter[str], name: str, value: int) -> None:
    peaks[name] = max(peaks[name], value)


def _sent(dask_worker: Any) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)
