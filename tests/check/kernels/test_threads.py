"""Threads of a product: one pool for all, whoever calls, and another after a fork."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.places import ROOT
from twom_dist.kernels.cpu.threads import (
    limit_threads,
    num_threads,
    run_each,
    run_pieces,
)

# Each item keeps its thread until all have one.
USE_THREADS = """
import os, threading, time
from twom_dist.kernels.cpu.threads import limit_threads, run_each

def use_threads(count):
    barrier = threading.Barrier(count, timeout=60)
    with limit_threads(count):
        run_each(lambda _: barrier.wait(), range(count))
"""
MANY_NUMBERS = """
for count in (2, 5, 3, 10, 7, 4):
    use_threads(count)
deadline = time.monotonic() + 60
while threading.active_count() > 10 and time.monotonic() < deadline:
    time.sleep(0.01)  # the threads of smaller pools end by themselves
assert threading.active_count() == 10, threading.enumerate()
"""
FORK = """
use_threads(4)
child = os.fork()
if child == 0:
    use_threads(4)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def run_alone(script: str) -> None:
    """Run in a process without other threads; forks beside them are warned of here."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", USE_THREADS + script]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=200)
    assert done.returncode == 0, done.stderr.decode()


def test_there_are_no_more_threads_than_any_product_asked_for():
    run_alone(MANY_NUMBERS)


def test_a_forked_child_has_threads_of_its_own():
    run_alone(FORK)


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


@pytest.mark.parametrize(
    ("count", "fewest", "most", "pieces", "threads"),
    [
        (0, 1, 9, 0, 1),
        (100, 1, 9, 12, 1),
        (100, 1, 99, 8, 1),
        (100, 30, 99, 4, 1),
        # Too few: each has all the threads.
        (100, 40, 99, 3, 2),
        (3, 0, 0, 3, 2),
    ],
)
def test_pieces_of_a_stack(count, fewest, most, pieces, threads):
    found = []
    with limit_threads(2):
        run_pieces(
            lambda piece: found.append((piece, num_threads())), count, fewest, most
        )
    covered = sorted((piece.start, piece.stop) for piece, _ in found)
    assert len(found) == pieces
    assert {own for _, own in found} <= {threads}
    assert [t for start, stop in covered for t in range(start, stop)] == [*range(count)]
