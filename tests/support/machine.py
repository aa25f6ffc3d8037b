"""Another machine than this one, as products without a client see it."""

from contextlib import contextmanager

import pytest

from twom_dist.workers import client


@contextmanager
def a_machine(*, memory=None, cores=None):
    """Have plans take this machine for one with so much memory and so many cores."""
    with pytest.MonkeyPatch.context() as patch:
        if memory is not None:
            patch.setattr(client, "machine_memory", lambda: memory)
        if cores is not None:
            patch.setattr(client, "CPU_COUNT", cores)
        yield
