"""Threads of a product: one pool for all, whoever calls, and errors that reach them."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident

import pytest

from tests.support.cases import cases
from twom_dist.kernels.cpu.threads import (
    limit_threads,
    num_threads,
    run_each,
    run_pieces,
)


def test_callers_that_ask_for_different_numbers_all_get_their_work_done():
    def call(caller: int) -> int:
        done: list[int] = []
        for count in range(2, 12):
            with limit_threads(2 + (caller + count) % 9):
                run_each(done.append, range(count))
        return sum(done)

    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(call, range(64)))
    assert found == [sum(sum(range(count)) for count in range(2, 12))] * 64


def test_an_error_ends_the_loop_and_reaches_the_caller():
    done: list[int] = []

    def work(item: int) -> None:
        if item == 5:
            raise ValueError(item)
        done.append(item)

    with limit_threads(4):
        for _ in range(20):
            done.clear()
            with pytest.raises(ValueError, match="5"):
                run_each(work, range(1000))
            seen = len(done)
            run_each(lambda _: None, range(8))
            assert len(done) == seen


def test_an_error_of_a_helper_reaches_the_caller():
    both, caller = Barrier(2, timeout=20), get_ident()

    def work(item: int) -> None:
        both.wait()
        if get_ident() != caller:
            raise ValueError("not here")

    with limit_threads(2), pytest.raises(ValueError, match="not here"):
        run_each(work, range(2))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are Linux's")
def test_threads_may_run_where_their_caller_may():
    cores, ready, found = os.sched_getaffinity(0), Barrier(2, timeout=9), []

    def meet(_):
        ready.wait()
        found.append(os.sched_getaffinity(0))

    with limit_threads(2):
        for own in ({min(cores)}, cores):
            os.sched_setaffinity(0, own)
            try:
                run_each(meet, range(2))
            finally:
                os.sched_setaffinity(0, cores)
            assert found[-2:] == [own, own]


@cases(
    ("count", "fewest", "most", "pieces", "threads"),
    [
        (0, 1, 9, 0, 1),
        (100, 1, 9, 12, 1),
        (100, 30, 99, 4, 1),
        # Too few: each has all the threads.
        (100, 40, 99, 3, 2),
        (3, 0, 0, 3, 2),
    ],
)
def test_pieces_of_a_stack(count, fewest, most, pieces, threads):
    found = []
    with limit_threads(2):
        note = lambda piece: found.append((piece, num_threads()))  # noqa: E731
        run_pieces(note, count, fewest, most)
    covered = sorted((piece.start, piece.stop) for piece, _ in found)
    assert len(found) == pieces
    assert {own for _, own in found} <= {threads}
    assert [t for start, stop in covered for t in range(start, stop)] == [*range(count)]
