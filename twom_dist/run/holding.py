"""Inputs of lazy products: held by the workers, or made again by every task."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from ..config import choice_setting
from ..errors import MemoryLimitError, PlanError
from ..plan import Cluster, Plan, check_fit, make_plan
from ..tiles.grid import Chunks
from ..tiles.spec import Spec
from .sources import ChunkSource, make_source

# For each choice of the setting, whether tasks make their inputs, in order.
_WAYS = {"auto": (False, True), "hold": (False,), "stream": (True,)}


class Inputs:
    """Aligned operands of a product, and the sources of their chunks."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    @cached_property
    def sources(self) -> tuple[ChunkSource, ChunkSource] | None:
        """Sources of A and B; None if tasks should not make the chunks of both."""
        a = make_source(self.a)
        b = a if self.b is self.a or a is None else make_source(self.b)
        return None if a is None or b is None else (a, b)


def plan_inputs(
    spec: Spec,
    chunks: tuple[Chunks, Chunks, Chunks],
    cluster: Cluster,
    can_stream: Callable[[], bool],
    *,
    strict: bool = True,
) -> Plan:
    """Plan a product whose inputs are held, where that fits, or made again.

    A result that does not fit beside them may leave as it is made, so that it does not
    have to. The least of all needs is the one that is refused.
    """
    chosen = choice_setting("inputs", tuple(_WAYS))
    if chosen == "stream" and not spec.empty and not can_stream():
        raise PlanError(
            "the inputs cannot be made again chunk by chunk: they are in memory, share "
            "tasks, are array expressions, or are bound to workers",
            "Set twom-dist.inputs to 'auto'",
            "inputs-held",
        )

    def attempt(choice: str, strict: bool) -> Plan:
        tried = []
        for leaving in (False, True):
            for streams in (False,) if spec.empty else _WAYS[choice]:
                if streams and not can_stream():
                    continue
                plan = make_plan(
                    spec, chunks, cluster, streams=streams, leaving=leaving
                )
                if plan.fits(leaving=leaving):
                    return plan
                need = plan.memory.least if leaving else plan.memory.total
                tried.append((need, leaving, plan))
        _, leaving, plan = min(tried, key=lambda x: x[0])
        # Only the one that is refused says what would help.
        return check_fit(plan, leaving=leaving) if strict else plan

    try:
        return attempt(chosen, strict)
    except MemoryLimitError as error:
        if chosen == "auto":
            raise
        try:
            attempt("auto", strict=True)
        except MemoryLimitError:
            raise error from None
        remedy = f"{error.remedy}, or set twom-dist.inputs to 'auto'"
        raise MemoryLimitError(error.problem, remedy, error.code) from None
