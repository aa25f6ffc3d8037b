"""Another machine than this one, as products without a client see it."""

from contextlib import contextmanager

import pytest

from twom_dist.run import client


@contextmanager
def a_machine(*, memory=None, cores=None):
    """Have plans take this machine for one with so much memory and so many cores."""
    with pytest.MonkeyPatch.context() as patch:
        if memory is not None:
            patch.setattr(client, "machine_memory", lambda: memory)
        if cores is not None:
            patch.setattr(client, "CPU_COUNT", cores)
        yield


@contextmanager
def a_cluster(*answers):
    """Have a scheduler answer with the memory of its workers, or not at all."""
    about = {"address": "tcp://h:1", "nthreads": 1, "sees_gpu": False}
    told = [x and [{**about, "memory_limit": y} for y in x] for x in answers]
    stand_in = type("Client", (), {"asynchronous": False})()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "current_client", lambda: stand_in)
        patch.setattr(client, "ask_scheduler", lambda *_: told.pop(0))
        yield
