"""Measuring from which size on products through int8 are faster on this machine."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import import_module
from math import inf, log
from statistics import median
from time import perf_counter
from typing import Any

from ..crossover import kept
from ..crossover.chips import chip_of
from ..crossover.choose import forget
from ..errors import EngineUnavailableError
from ..kernels.registry import ENGINES, get_engine
from ..problem.choice import choose
from ..testing import random_matrix
from ..typing import EngineName
from . import gemm, updates

# Sides of products, searched by halves; none whose product would take longer than this
# many seconds, as the last one that lost tells.
SIDES = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
LONGEST = 0.5
# What a side is given: rounds of both, and seconds after which the rounds end.
ROUNDS, SECONDS = 5, 0.3
_COMPLEX, _REAL = ("complex128", "complex64"), ("float64", "float32")
KINDS = tuple(
    (routine, dtype)
    for dtypes, routines in (
        (_COMPLEX, ("gemm", "herk", "syrk")),
        (_REAL, ("gemm", "syrk")),
    )
    for dtype in dtypes
    for routine in routines
)
_ROUTINES: dict[str, Any] = {
    "gemm": gemm.gemm,
    "herk": updates.herk,
    "syrk": updates.syrk,
}


@dataclass(frozen=True)
class Crossovers:
    """Sizes from which on int8 is faster on a chip; print it.

    Attributes
    ----------
    chip : str
    sizes : dict of str to float
        By routine and dtype, such as "gemm complex128": the `1 / (1/m + 1/n + 1/k)`
        from which on "auto" takes int8; infinite where no side was faster.
    path : str
        The file that keeps them.
    """

    chip: str
    sizes: dict[str, float]
    path: str

    def __str__(self) -> str:
        lines = [f"{self.chip}: method='auto' takes int8 for"]
        for kind, size in self.sizes.items():
            told = "no size measured" if size == inf else f"n from {3 * size:.0f} on"
            lines.append(f"  {kind:<16}  {told}")
        return "\n".join([*lines, f"kept in {self.path}"])


def tune(engine: EngineName = "auto") -> Crossovers:
    """Measure from which size on int8 is faster here, for method="auto".

    Multiplies square random matrices by the default accuracy and natively,
    in turns, with each routine and dtype, for up to a minute in all. The sizes are
    kept for this chip in the folder of the setting ``twom-dist.crossovers``, by default
    ``~/.cache/twom-dist``, where "auto" finds them from now on; `explain` and `doctor`
    say so. Let nothing else run.

    Parameters
    ----------
    engine : {"auto", "cpu", "cuda"}
        "cuda" for CuPy arrays on the current device, "cpu" for NumPy arrays; "auto"
        (default): "cuda" if there is a GPU.

    Returns
    -------
    Crossovers
        The sizes, and the file that keeps them; print it.

    Raises
    ------
    PlanError
        For another engine.
    EngineUnavailableError
        For "cuda" where there is no GPU.
    OSError
        If the file cannot be written.
    """
    name = choose("engine", engine, tuple(x for x in ENGINES if x != "reference"))
    if name == "auto":
        name = "cuda" if _has_gpu() else "cpu"
    get_engine(name)
    xp, wait = _library(name)
    sizes, measured = {}, []
    for routine, dtype in KINDS:
        times = partial(_time, xp, wait, routine, dtype)
        found = dict(_search(times))
        sizes[f"{routine} {dtype}"] = _crossing(found)
        measured += [
            {"routine": routine, "dtype": dtype, "n": n, "native": x, "int8": y}
            for n, (x, y) in sorted(found.items())
        ]
    chip = chip_of(name)
    path = kept.write(chip, date.today().isoformat(), sizes, measured)
    forget()
    return Crossovers(chip.name, sizes, str(path))


def _has_gpu() -> bool:
    try:
        get_engine("cuda")
    except EngineUnavailableError:
        return False
    return True


def _library(engine: str) -> tuple[Any, Callable[[], object]]:
    """Return what makes arrays, and what waits for them."""
    if engine == "cpu":
        return import_module("numpy"), lambda: None
    cupy = import_module("cupy")
    return cupy, cupy.cuda.get_current_stream().synchronize


Times = tuple[float, float]


def _search(times: Callable[[int], Times]) -> Iterator[tuple[int, Times]]:
    """Measure sides in halves, and leave out those that would take too long."""
    low, high = 0, len(SIDES)
    while low < high:
        middle = (low + high) // 2
        n = SIDES[middle]
        native, int8 = times(n)
        yield n, (native, int8)
        if int8 <= native:
            high = middle
        else:
            low = middle + 1
            longest = n * (LONGEST / max(native, int8)) ** (1 / 3)
            high = min(high, bisect_left(SIDES, longest))


def _crossing(found: dict[int, Times]) -> float:
    """Interpolate between the largest side that loses and the smallest that wins."""
    gains = {n: log(native / int8) for n, (native, int8) in found.items()}
    wins = min((n for n, gain in gains.items() if gain >= 0), default=None)
    if wins is None:
        return inf
    loses = max((n for n in gains if n < wins), default=None)
    if loses is None:
        return wins / 3
    share = gains[loses] / (gains[loses] - gains[wins])
    return float(loses * (wins / loses) ** share / 3)


def _time(
    xp: Any, wait: Callable[[], object], routine: str, dtype: str, n: int
) -> Times:
    """Return the medians of a native product and of one through int8."""
    count = 2 if routine == "gemm" else 1
    given = [xp.asarray(random_matrix(n, n, dtype=dtype, seed=x)) for x in range(count)]
    call = _ROUTINES[routine]
    seconds: dict[str, list[float]] = {"blas": [], "2m": []}
    end = perf_counter() + SECONDS
    # The first one of each finds no memory to reuse, and may compile.
    for turn in range(ROUNDS + 1):
        if turn > 2 and perf_counter() > end:
            break
        for method, taken in seconds.items():
            start = perf_counter()
            call(*given, method=method)
            wait()
            taken.append(perf_counter() - start)
    native, int8 = (median(taken[1:]) for taken in seconds.values())
    return native, int8
