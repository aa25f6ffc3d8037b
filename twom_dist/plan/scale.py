"""Predictions for several numbers of workers: strong and weak scaling."""

from collections.abc import Callable, Iterable, Iterator
from math import sqrt
from typing import Any

from ..checks import ROUTINES
from .chunks import SMALLEST_TILE
from .gemm import plan_gemm
from .machines import Link, Machine, find_link, find_machine
from .prediction import Prediction, predict
from .rank_k import plan_her2k, plan_herk, plan_syr2k, plan_syrk
from .record import Plan

__all__ = ["Prediction", "predict", "scale"]

_PLANS: dict[str, Callable[..., Plan]] = {
    "gemm": plan_gemm,
    "herk": plan_herk,
    "syrk": plan_syrk,
    "her2k": plan_her2k,
    "syr2k": plan_syr2k,
}
# Smaller tiles must save a twentieth: their products are slower, and each of their
# tasks costs its worker something.
SAVING = 0.95


def scale(
    routine: str,
    shape: int | tuple[int, int, int],
    workers: Iterable[int],
    weak: bool = False,
    *,
    machine: Machine | None = None,
    link: Link | None = None,
    tile: int | None = None,
    **options: Any,
) -> list[Prediction]:
    """Predict a routine for several numbers of workers.

    Parameters
    ----------
    routine : {"gemm", "herk", "syrk", "her2k", "syr2k"}
    shape : int or (m, n, k)
        One number for all of them; m = n for updates.
    workers : iterable of int
    weak : bool
        Let the shape grow such that every worker keeps the bytes that it has of the
        matrices with the first number of workers; else it stays as it is.
    machine : Machine, optional
        Default: one core.
    link : Link, optional
        Default: TCP.
    tile : int, optional
        Side of a tile. Left out: the largest that fits and is not slow.
    **options
        dtype, uplo, accuracy, num_moduli, method, scaling: as the routine takes them.

    Returns
    -------
    list of Prediction
        One for each number of workers.

    Examples
    --------
    >>> [p.plan.n for p in scale("herk", 4096, (1, 4, 16), weak=True)]
    [4096, 8192, 16384]
    """
    machine = machine or find_machine("cpu")
    link = link or find_link("tcp")
    m, n, k = (shape,) * 3 if isinstance(shape, int) else shape
    counts = list(workers)
    found = []
    for count in counts:
        factor = sqrt(count / counts[0]) if weak else 1
        sizes = round(m * factor), round(n * factor), round(k * factor)
        sides = [tile] if tile else _sides(machine)
        best: Prediction | None = None
        for side in sides:
            along = tile or machine.largest_tile
            chunks = (side, side, along) if routine == "gemm" else (side, along)
            plan = _plan(routine, sizes, chunks=chunks, workers=count, **options)
            candidate = predict(plan, machine, link)
            if best is None or _improves(candidate, best):
                best = candidate
            # Smaller tiles are more tasks.
            if candidate.dominant == "scheduling":
                break
        assert best is not None
        found.append(best)
    return found


def _sides(machine: Machine) -> Iterator[int]:
    """Sides of tiles, each half of the one before."""
    side = machine.largest_tile
    while side >= SMALLEST_TILE:
        yield side
        side //= 2


def _improves(candidate: Prediction, best: Prediction) -> bool:
    """Whether smaller tiles fit at last, or gain more than what is left out of them."""
    if candidate.fits != best.fits:
        return candidate.fits
    return candidate.seconds < SAVING * best.seconds


def _plan(routine: str, shape: tuple[int, int, int], **options: Any) -> Plan:
    m, n, k = shape
    update = ROUTINES.get(routine)
    operands = [(m, k), (k, n)]
    if update is not None:
        operands = [(n, k)] * (2 if update.two else 1)
    return _PLANS[routine](*operands, **options)
