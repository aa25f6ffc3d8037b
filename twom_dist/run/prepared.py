"""Products of NumPy and CuPy arrays, prepared once for all similar calls.

The key is the whole call, except the addresses of its arrays. If the data decide the
moduli, similar matrices usually take the same moduli, so the function that multiplies
with the last moduli is kept. If the host has to wait for the few numbers that decide,
it launches a small product by this function meanwhile, and repeats the product if the
numbers ask for other moduli: the bits are always those of the decided moduli.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from ..auto.choose import state as crossovers
from ..config import settings
from ..errors import EngineUnavailableError, MemoryLimitError
from ..kernels.device_memory import try_with_less, workspace_share
from ..kernels.family import family_of
from ..kernels.registry import get_engine
from ..moduli import ResidueSystem
from ..problem.call import Call
from ..problem.dtypes import as_number
from ..problem.matrices import check_place, is_dask, set_apart
from ..problem.problem import Problem, of_arrays
from ..tiles.analysis.equilibration import may_gain
from ..tiles.analysis.in_memory import decide, plan_analysis
from ..tiles.spec import load_engine, transposes
from ..typing import Array
from . import eager, stacks
from .stacks import PreparedStack

_GUESSED_BELOW = 4096  # beside larger products the wait is short
_MOST = 256  # shapes in use at a time are few; the least recently used one is forgotten
# Settings that plans of such products read.
_SETTINGS = "workspace-bytes", "winograd-levels", "largest-tile"

Multiply = Callable[..., Array]


def compute(posed: Problem) -> Any:
    """Compute a problem of arrays: now, or lazily if one of them is a dask array."""
    if posed.spec.lazy or any(map(is_dask, posed.matrices)):
        from . import lazy, lazy_stacks

        return (lazy_stacks if posed.stack else lazy).compute(posed)
    driver = stacks if posed.stack else eager
    return try_with_less(partial(driver.compute, posed))


class Prepared:
    """A product of one tile, without its arrays."""

    def __init__(self, problem: Problem, multiply: Multiply | None) -> None:
        self._spec, self.adds = problem.spec, problem.c is not None
        self._turned, self._multiply = transposes(self._spec), multiply
        self._operands, self.used = len(self._spec.sides), 0
        # The moduli that `multiply` takes, where the data decide.
        self._last: tuple[ResidueSystem | None, Multiply | None] = None, None
        if multiply is None:
            self._waits = load_engine(self._spec).waits
            self._guesses = self._waits and max(problem.shape) < _GUESSED_BELOW
            self._analyse = plan_analysis(self._spec)
            # Whether octaves decided the last time: then they come with the numbers.
            self._octaves = False

    @classmethod
    def of(cls, problem: Problem) -> "Prepared | PreparedStack | None":
        """Prepare a product; None where it takes several tiles, or a conversion."""
        spec = problem.spec
        if problem.stack:
            return PreparedStack.of(problem)
        if not spec.data_driven:
            multiply = eager.prepare_fused(problem, object())
            return multiply and cls(problem, multiply)
        # No guess is written to out, before it is known that it can be computed.
        if problem.out is not None and load_engine(spec).waits:
            return None
        expected = replace(spec, data_driven=False, equilibrate=False)
        fits = eager.prepare_fused(replace(problem, spec=expected), None) is not None
        return cls(problem, None) if fits else None

    def run(
        self,
        a: Array,
        b: Array,
        c: Array | None,
        out: Array | None,
        pose: Callable[[], Problem],
    ) -> Any:
        """Compute the product of arrays like those that it was prepared for.

        `pose`: gives the problem of these, where it is computed in another way.
        """
        if self._multiply is not None:
            return self._multiply(a, b, c=c, out=out)
        turn_a, turn_b = self._turned
        x, y = a.T if turn_a else a, b.T if turn_b else b
        (last, multiply), meanwhile = self._last, None
        found: list[Array] = []
        if self._guesses and multiply is not None:
            meanwhile = partial(_guess, partial(multiply, a, b, c=c), found)
        operands = (x, y)[: self._operands]
        analysis = self._analyse(operands, octaves=self._octaves, meanwhile=meanwhile)
        columns = analysis.columns
        if columns is not None and may_gain(columns[:, 0].tolist(), self._spec.k):
            return eager.compute(pose(), analysis)
        decision = decide(operands, analysis, self._spec)
        self._octaves = decision.decided_by in ("octaves", "pairs")
        if decision.system is None:
            return eager.compute(pose(), analysis)
        if decision.system is not last:
            settled = self._spec.with_moduli(decision.system)
            settled = replace(settled, equilibrate=False)
            multiply = eager.prepare_fused(replace(pose(), spec=settled), self)
            self._last = decision.system, multiply
            found.clear()
        if multiply is None:
            return eager.compute(pose(), analysis)
        if found:
            return found[0]
        known = None if self._waits else analysis.statistics()
        return multiply(a, b, c=c, out=out, known=known)


def _guess(multiply: Callable[[], Array], found: list[Array]) -> None:
    # Other moduli may need less memory.
    with suppress(MemoryLimitError, MemoryError):
        found.append(multiply())


_prepared: dict[Hashable, Prepared | PreparedStack] = {}
# Each use has a number: a key is hashed once a call, which costs as much as the rest.
_uses = count()


def compute_arrays(call: Call, key: Hashable = None) -> Any:
    """Compute a routine of arrays, or of dask arrays.

    `key`: that of `find_key`, None where nothing is prepared.
    """
    terms, A, B, C, out, _ = call
    adds = C is not None and out is not None and terms.beta is not None
    if adds and as_number(terms.beta, "beta") != 0:
        C = set_apart(C, out)
        call = call._replace(C=C)
    try:
        found = _prepared.get(key)
    except TypeError:
        key = found = None  # a scalar that is an array
    if key is None:
        return compute(of_arrays(call))
    pose = partial(of_arrays, call)
    if found is None:
        posed = pose()
        found = Prepared.of(posed)
        if found is None:
            return compute(posed)
        if len(_prepared) >= _MOST:
            # Other threads may prepare and drop meanwhile.
            held = [*_prepared.items()]
            _prepared.pop(min(held, key=lambda item: item[1].used)[0], None)
        _prepared[key] = found
    elif out is not None:
        # Its shape, strides, dtype and device are those of the first call.
        read = A, B, C if found.adds else None
        check_place(out, [x for x in read if x is not None])
    found.used = next(_uses)
    try:
        b, c = A if B is None else B, C if found.adds else None
        return found.run(A, b, c, out, pose)
    except (MemoryLimitError, MemoryError):
        return compute(pose())  # planned anew, in less memory if need be


def find_key(call: Call) -> Hashable:
    """Return all but addresses that a product of arrays depends on, or None."""
    terms, A, B, C, out, _ = call
    choice, kind, family = terms.choice, type(A), family_of(A)
    if kind is not np.ndarray and (family == "numpy" or kind.__name__ != "ndarray"):
        return None
    if choice.pairs or choice.few or workspace_share() < 1:
        return None
    outlines: list[Hashable] = []
    for x in (A, B, C, out):
        if x is None:
            outlines.append(None)
        elif type(x) is kind:
            outlines += x.shape, x.dtype, x.strides
        else:
            return None
    where = None
    if family == "cupy":
        try:
            engine = get_engine("cuda")
        except EngineUnavailableError:
            return None  # said where the problem is posed
        where = engine, engine.variant(), None if out is None else out.data.device_id
    chosen = crossovers() if choice.by_size else None
    return terms, kind, *outlines, where, chosen, *settings(_SETTINGS)
