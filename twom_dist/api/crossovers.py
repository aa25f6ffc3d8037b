"""Measurement of the sizes from which int8 products are faster on this machine."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib import import_module
from math import ceil, inf, log
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from dask.system import CPU_COUNT

from ..auto import table
from ..auto.chips import chip_of
from ..auto.choose import KINDS, forget
from ..errors import EngineUnavailableError, MemoryLimitError
from ..kernels import chip_files
from ..kernels.registry import ENGINES, get_engine, load_engine
from ..problem.arguments import checked
from ..problem.choice import choose
from ..testing import random_matrix
from ..typing import EngineName
from ..workers.machine import read_clocks
from .gemm import gemm
from .updates import herk, syrk

# Sides of products, searched by halves.
SIDES = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
# Seconds for all kinds of products; one that needs less than its share leaves the rest
# to the next ones. A machine on which two rounds of each kind take longer takes longer:
# two cores that others kept busy, too, 19 to 22 s (AMD EPYC, Zen 2; a load of 8).
SECONDS = 12.0
# Share of the cores that others may use: dask's scheduler takes less.
BUSY = 0.1
# Rounds of a side, and the share of the seconds for its kind that more may take.
ROUNDS, SHARE = 5, 1 / 16
_ROUTINES: dict[str, Any] = {"gemm": gemm, "herk": herk, "syrk": syrk}


@dataclass(frozen=True, repr=False)
class Crossovers:
    """Sizes from which on int8 is faster on a chip; print it.

    Attributes
    ----------
    chip : str
    sizes : dict of str to float
        By routine and dtype, such as "gemm complex128": the n from which on "auto"
        takes int8 for n x n matrices; infinite where no n was faster. Without those
        whose known n lies beyond those that were measured. "products by cuBLAS": the n
        from which on cuBLAS multiplies, on GPUs where it may be faster. For other
        matrices n is the harmonic mean of m, n and k.
    path : str
        The file that keeps them; empty if other programs disturbed the measurement of
        a CPU: nothing is kept then, and an older file stays.
    tried : dict of str to int
        The largest n that was measured, by routine and dtype.
    busy : float
        Cores of this process that other programs used meanwhile, on average.
    """

    chip: str
    sizes: dict[str, float]
    path: str
    tried: dict[str, int]
    busy: float

    def __repr__(self) -> str:
        lines = [f"{self.chip}: method auto takes int8 for"]
        for kind in map(" ".join, KINDS):
            size = self.sizes.get(kind)
            told = "sizes known of such chips"
            if size is not None:
                told = f"n >= {size:.0f}"
                never = f"never (tried up to n = {self.tried[kind]})"
                told = told if size < inf else never
            lines.append(f"  {kind:<16}  {told}")
        if (size := self.sizes.get(chip_files.PRODUCTS, inf)) < inf:
            lines.append(f"cuBLAS multiplies if n >= {size:.0f}")
        kept = f"kept in {self.path}"
        if not self.path:
            kept = (
                f"warning: other programs used {self.busy:.1f} of {CPU_COUNT} cores "
                "meanwhile; run it again when the machine is idle\nnot kept"
            )
        return "\n".join([*lines, kept])


@checked
def tune(engine: EngineName = "auto") -> Crossovers:
    """Measure the sizes from which int8 is faster here, for method="auto".

    Parameters
    ----------
    engine : {"auto", "cpu", "cuda"}, optional
        "cuda" for CuPy arrays on the current device, "cpu" for NumPy arrays; "auto"
        (default): "cuda" if there is a GPU.

    Returns
    -------
    Crossovers
        The sizes, and the file that keeps them; print it.

    Raises
    ------
    EngineUnavailableError
        For "cuda" without a GPU.
    StoreError
        If the file cannot be written; this is checked before measuring.

    See Also
    --------
    matmul : Uses these sizes to choose the faster method.
    explain : Says which size is known of a product, for this chip or a similar one.

    Notes
    -----
    Each routine and dtype multiplies square random matrices in turns by int8, with the
    default accuracy, and by NumPy or CuPy. This takes 12 seconds, or longer on a slow
    machine, and compiling kernels before that up to a minute. Run nothing else
    meanwhile: nothing is kept of a CPU if other programs used its cores. The sizes are
    kept for this chip in the folder of the setting ``twom-dist.crossovers``, by default
    ``~/.cache/twom-dist``, where "auto" finds them from now on.

    Examples
    --------
    >>> import twom_dist as td
    >>> print(td.tune())  # doctest: +SKIP
    AMD EPYC (family 25 model 17), 2 cores: method auto takes int8 for
      gemm float32      never (tried up to n = ...)
      ...
    """
    name = choose("engine", engine, tuple(x for x in ENGINES if x != "reference"))
    if name == "auto":
        name = "cuda"
        try:
            get_engine(name)
        except EngineUnavailableError:
            name = "cpu"
    get_engine(name)
    chip, take = chip_of(name), getattr(load_engine(name), "take_measured", None)
    chip_files.check_folder(chip.name)
    xp, wait = _library(name)
    start, others = read_clocks()
    sizes: dict[str, float] = {}
    tried, left = {}, SECONDS
    if take is not None and take():
        # First, since the products below are made as it says.
        ways: Ways = [(partial(take, x), {"num_moduli": 16}) for x in (inf, 0.0)]
        rounds = partial(_rounds, xp, wait, "gemm", "complex128", ways)
        try:
            found, spent = _search(rounds, left / (1 + len(KINDS)))
        finally:
            take()
        left -= spent
        sizes[chip_files.PRODUCTS] = _find_crossing(found)
        take(sizes[chip_files.PRODUCTS])
    for i, (routine, dtype) in enumerate(KINDS):
        rounds = partial(_rounds, xp, wait, routine, dtype, _NATIVE_OR_INT8)
        share = left / (len(KINDS) - i)
        found, spent = _search(rounds, share)
        left -= spent
        tried[f"{routine} {dtype}"] = max(found, default=0)
        size, known = _find_crossing(found), table.look_up(chip, routine, dtype)
        # Sides that take too long are not measured.
        if size < inf or known is None or known.size <= tried[f"{routine} {dtype}"]:
            sizes[f"{routine} {dtype}"] = size
    end, later = read_clocks()
    busy = max(0.0, (later - others) / (end - start))
    path = ""
    # Few cores suffice to time a GPU.
    if name == "cuda" or busy <= BUSY * CPU_COUNT:
        path = str(chip_files.write(chip.name, date.today().isoformat(), sizes))
        forget()
    return Crossovers(chip.name, sizes, path, tried, busy)


def _library(engine: str) -> tuple[Any, Callable[[], object]]:
    if engine == "cpu":
        return import_module("numpy"), lambda: None
    cupy = import_module("cupy")
    return cupy, cupy.cuda.get_current_stream().synchronize


Times = tuple[float, float]
Rounds = Callable[[int], Iterator[Times]]


def _search(rounds: Rounds, seconds: float) -> tuple[dict[int, Times], float]:
    """Measure sides in halves, but those that take too long or too much memory.

    Returns the times of products, native and through int8, and the seconds that all
    took: of the first side two rounds, others as long as the rest allows.
    """
    found: dict[int, Times] = {}
    low, high, left = 0, len(SIDES), seconds
    while low < high:
        middle = (low + high) // 2
        n = SIDES[middle]
        try:
            found[n], spent = _measure(rounds(n), left / 2, seconds * SHARE)
        except (MemoryError, MemoryLimitError):
            high = middle
            continue
        left -= spent
        native, int8 = found[n]
        if int8 <= native:
            high = middle
        else:
            low = middle + 1
            longest = n * (max(left, 0) / (2 * (native + int8))) ** (1 / 3)
            high = min(high, bisect_right(SIDES, longest))
    return found, seconds - left


def _measure(
    rounds: Iterator[Times], most: float, enough: float
) -> tuple[Times, float]:
    """Return medians of rounds, and the seconds that they took, at most `most`.

    After `ROUNDS` there are more until `enough` seconds are over.
    """
    # The first one finds no memory to reuse, and may compile, which does not count.
    next(rounds)
    taken = [next(rounds)]
    spent = 2 * sum(taken[0])
    while spent + sum(taken[-1]) <= (most if len(taken) < ROUNDS else enough):
        taken.append(next(rounds))
        spent += sum(taken[-1])
    native, int8 = map(median, zip(*taken, strict=True))
    return (native, int8), spent


def _find_crossing(found: dict[int, Times]) -> float:
    """Interpolate between the largest side that loses and the smallest that wins."""
    gains = {n: log(native / int8) for n, (native, int8) in found.items()}
    wins = min((n for n, gain in gains.items() if gain >= 0), default=None)
    if wins is None:
        return inf
    loses = max((n for n in gains if n < wins), default=None)
    if loses is None:
        return wins
    share = gains[loses] / (gains[loses] - gains[wins])
    return float(ceil(loses * (wins / loses) ** share))


# What is done before a product, and its options: for the two that are compared.
Ways = list[tuple[Callable[[], object], dict[str, Any]]]
_NATIVE_OR_INT8: Ways = [(bool, {"method": x}) for x in ("blas", "2m")]


def _rounds(
    xp: Any, wait: Callable[[], object], routine: str, dtype: str, ways: Ways, n: int
) -> Iterator[Times]:
    """Time a product in both ways, again and again."""
    count = 2 if routine == "gemm" else 1
    # A prime number of entries, over and over: all rows differ.
    drawn = [random_matrix(1, 65537, dtype=dtype, seed=x) for x in range(count)]
    matrices = [xp.asarray(np.resize(x, (n, n))) for x in drawn]
    call = _ROUTINES[routine]
    while True:
        seconds = []
        for prepare, options in ways:
            prepare()
            start = perf_counter()
            call(*matrices, **options)
            wait()
            seconds.append(perf_counter() - start)
        yield seconds[0], seconds[1]
