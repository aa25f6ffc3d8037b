"""Tasks at a disk: who computes meanwhile, and how many may go."""

from threading import Barrier, Event, Lock

import pytest

from twom_dist.jobs.execution import LEAST_BYTES, Cores, at_disk

PATIENCE = 30


@pytest.mark.parametrize("cores", [1, 3])
def test_no_more_compute_than_there_are_cores(cores):
    lock, counts = Lock(), {"now": 0, "most": 0}
    begun = Barrier(cores)

    def compute(n):
        with lock:
            counts["now"] += 1
            counts["most"] = max(counts["most"], counts["now"])
        if n < cores:
            begun.wait(PATIENCE)
        with lock:
            counts["now"] -= 1
        with at_disk(LEAST_BYTES):
            # A failure gives its place back as well.
            return 1 // (n % 2)

    with Cores(cores) as pool:
        tasks = [pool.submit(compute, n) for n in range(50)]
    failed = [isinstance(task.exception(), ZeroDivisionError) for task in tasks]
    assert failed == 25 * [True, False]
    assert counts == {"now": 0, "most": cores}


@pytest.mark.parametrize("writes", [False, True])
def test_an_error_drops_what_has_not_begun_and_waits_for_writers_alone(writes):
    begun, go, ran = Event(), Event(), []

    def run():
        begun.set()
        go.wait(PATIENCE)
        ran.append("first")

    def fail():
        with Cores(1, writes=writes) as pool:
            pool.submit(run)
            pool.submit(ran.append, "second")
            begun.wait(PATIENCE)
            if writes:
                go.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert ran == (["first"] if writes else [])
    go.set()
