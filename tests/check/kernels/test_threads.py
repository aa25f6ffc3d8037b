"""Threads of a product: one pool for all, whoever calls, and errors that reach them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident

import pytest

from twom_dist.kernels.cpu.threads import limit_threads, run_each


def test_all_work_is_done_and_errors_reach_the_caller():
    """Whoever asks for how many threads; nobody works on after an error."""

    def call(caller):
        done = []
        for count in range(2, 12):
            with limit_threads(2 + (caller + count) % 9):
                run_each(done.append, range(count))
        return sum(done)

    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(call, range(64)))
    assert found == [sum(sum(range(count)) for count in range(2, 12))] * 64
    done = []
    both, caller = Barrier(2, timeout=20), get_ident()

    def work(item):
        if item == 5:
            raise ValueError(item)
        done.append(item)

    def meet(item):
        both.wait()
        if get_ident() != caller:
            raise ValueError("not here")

    with limit_threads(4):
        for _ in range(20):
            done.clear()
            with pytest.raises(ValueError, match="5"):
                run_each(work, range(1000))
            seen = len(done)
            run_each(lambda _: None, range(8))
            assert len(done) == seen
    with limit_threads(2), pytest.raises(ValueError, match="not here"):
        run_each(meet, range(2))
