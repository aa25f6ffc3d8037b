"""The order of tasks on each worker, and the copies of tiles that are dropped."""

import random
from itertools import product

from tests.support.cases import cases
from twom_dist.tiles.graph import PANEL, PRODUCT, REDUCE
from twom_dist.tiles.placement.order import Step, order_along_k
from twom_dist.tiles.placement.replicas import Replicas

ROWS, COLUMNS, PANELS = 5, 4, 3


@cases("workers", [1, 2])
@cases("turn", [(5, 4), (2, 2), (1, 3), (1, 1)])
def test_turns_follow_one_another_and_panels_go_along_k(turn, workers):
    steps = []
    for i, j in product(range(ROWS), range(COLUMNS)):
        worker = str(j % workers)
        for k in range(PANELS):
            steps.append(Step((worker, i, j, k), worker, PANEL, (i, j), k))
        steps.append(Step((worker, i, j, 8), worker, REDUCE, (i, j), 0))
        steps.append(Step((worker, i, j, 9), worker, PRODUCT, (i, j), 0))
    random.Random(1).shuffle(steps)
    found = order_along_k(steps, turn)
    assert sorted(found) == sorted(step.task for step in steps)
    for own in range(workers):
        mine = [task[1:] for task in found if task[0] == str(own)]
        # Columns of tiles as the worker counts them.
        turns = [(i // turn[0], j // workers // turn[1]) for i, j, _ in mine]
        assert turns == sorted(turns)
        for each in {*turns}:
            panels = [x[2] for x, y in zip(mine, turns, strict=True) if y == each]
            assert panels == sorted(panels)


def test_a_tile_is_dropped_after_the_last_task_of_a_worker_that_takes_it():
    replicas = Replicas()
    replicas.watch("x", "a", ["t", "u"])
    replicas.watch("y", "a", ["t"])
    replicas.watch("z", "b", ["t"])
    replicas.watch("w", "b", [])
    assert replicas.done("x") == ("a", ["u"])
    assert replicas.done("z") == ("b", ["t"])
    assert replicas.done("y") == ("a", ["t"])
    for other in ("w", "x", "nothing"):
        assert replicas.done(other)[1] == []
