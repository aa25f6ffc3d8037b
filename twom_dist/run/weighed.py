"""Products whose moduli the data decide: planned once, decided by a few numbers.

Products of like matrices mostly take like moduli. Where the host waits for the numbers,
a small product is launched meanwhile by the moduli of the last one. If others come out,
it is launched again: the bits are those of the moduli that were decided.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..errors import MemoryLimitError
from ..moduli import ResidueSystem
from ..problem.matrices import check_place
from ..problem.problem import Problem
from ..tiles.look.in_memory import decide, may_shift, plan_analysis
from ..tiles.spec import Spec, load_engine, turned
from ..typing import Array
from . import eager

# Larger products take so long that the wait is little beside them.
BELOW = 4096


class WeighedRecipe:
    """A product without its arrays whose moduli mostly are those of the last one."""

    def __init__(self, problem: Problem) -> None:
        self.spec, self.adds = problem.spec, problem.c is not None
        self.turned = turned(problem.spec)
        self._twins, self._analyse = problem.spec.twins, plan_analysis(problem.spec)
        self._waits = load_engine(problem.spec).waits
        self._guesses = self._waits and max(problem.shape) < BELOW
        # Whether octaves decided the last time, and are fetched with the few numbers.
        self._octaves = False
        # One reference, which threads may replace.
        self._last: tuple[ResidueSystem | None, Callable[..., Array] | None]
        self._last = None, None

    @classmethod
    def of(cls, problem: Problem) -> "WeighedRecipe | None":
        """Plan a problem; None where it cannot be computed at once."""
        spec = problem.spec
        if not spec.by_entries or spec.lazy or spec.empty:
            return None
        # No guess is written to out, before it is known that it can be computed.
        if problem.out is not None and load_engine(spec).waits:
            return None
        expected = replace(spec, by_entries=False)
        return None if _find_multiply(problem, expected) is None else cls(problem)

    def run(
        self,
        a: Array,
        b: Array | None,
        c: Array | None,
        out: Array | None,
        pose: Callable[[], Problem],
    ) -> Any:
        """Compute the product of arrays of the same shapes and dtypes.

        `pose`: gives their problem, if it is to be planned.
        """
        spec, (turn_a, turn_b) = self.spec, self.turned
        b, c = a if b is None else b, c if self.adds else None
        if out is not None:
            check_place(out, [t for t in (a, b, c) if t is not None])
        x, y = a.T if turn_a else a, b.T if turn_b else b
        (last, multiply), found = self._last, None

        def launch() -> None:
            nonlocal found
            # Others may take less memory.
            if multiply is not None:
                with suppress(MemoryLimitError, MemoryError):
                    found = multiply(x, y, c=c)

        given = [x] if self._twins else [x, y]
        meanwhile = launch if self._guesses else None
        analysis = self._analyse(given, octaves=self._octaves, meanwhile=meanwhile)
        decision = None
        if not may_shift(analysis, spec.k):
            decision = decide(given, analysis, spec)
            self._octaves = decision.closed_by in ("octaves", "pairs")
        if decision is None or decision.system is None:
            return eager.compute(pose(), analysis)
        if decision.system is not last:
            multiply = _find_multiply(pose(), spec.settle(decision.system))
            self._last, found = (decision.system, multiply), None
        if multiply is None:
            return eager.compute(pose(), analysis)
        if found is not None:
            return found
        known = None if self._waits else analysis.statistics()
        return multiply(x, y, c=c, out=out, known=known)


def _find_multiply(problem: Problem, settled: Spec) -> Callable[..., Array] | None:
    """Return what multiplies at once by moduli that are settled, without shifts."""
    spec = replace(settled, equilibrate=False)
    return eager.find_fused(replace(problem, spec=spec))
