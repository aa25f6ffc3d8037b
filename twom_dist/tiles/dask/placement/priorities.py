"""The order of a product's tasks on each worker: sweeps of tiles of C, panel by panel.

See `plan.sweeps`. Tasks that scale come first, since products wait for all of them.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from ....typing import Cell
from ...spec import Spec
from ..graph import PANEL, PRODUCT


class Step(NamedTuple):
    """A task of a product: its worker, its tile of C, and its panel along k."""

    task: Any
    worker: str
    stage: str
    cell: Cell
    first: int  # tile along k of a panel; 0 of other stages


def sweep_of(task: Any) -> tuple[int, int]:
    """Return the sweep of a task's product; (0, 0) if their order is left to dask."""
    given = getattr(task.run_spec, "args", ())
    # While the data decide about moduli, only the rows of tiles know their spec.
    given = (*given, *(y for x in given for y in getattr(x, "args", ())))
    return next((x.sweep for x in given if isinstance(x, Spec)), (0, 0))


def order_along_k(steps: Iterable[Step], sweep: tuple[int, int]) -> list[Any]:
    """Order the tasks of a product.

    Examples
    --------
    >>> steps = [Step((i, k), "w", PANEL, (i, 0), k) for i in range(3) for k in (0, 1)]
    >>> order_along_k(steps, (2, 1))
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    """
    steps = [*steps]
    held: dict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for step in steps:
        for own, index in zip(held[step.worker], step.cell, strict=True):
            own.add(index)
    places = {
        worker: [{x: n for n, x in enumerate(sorted(own))} for own in both]
        for worker, both in held.items()
    }

    def rank(step: Step) -> tuple[Any, ...]:
        at = [own[x] for own, x in zip(places[step.worker], step.cell, strict=True)]
        own_sweep = tuple(x // size for x, size in zip(at, sweep, strict=True))
        # Panels, sums of parts, tiles of C.
        late = 0 if step.stage == PANEL else 2 if step.stage == PRODUCT else 1
        return own_sweep, late, step.first, at

    return [step.task for step in sorted(steps, key=rank)]
