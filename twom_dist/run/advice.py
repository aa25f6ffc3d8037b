"""Advice about a product: what would be faster or smaller than what was asked for."""

from math import prod
from typing import Any

from dask.utils import format_bytes

from ..auto.choose import prefers_native, tell_choice
from ..problem.problem import Problem
from ..workers.client import chip_of_workers

# Smaller products take a second or so, natively or not.
_LEAST_PRODUCT = 2**30
# An update is taken for one with the wrong op if the other result has a side smaller by
# this, since few ask for a matrix of so low a rank.
_RANK_FACTOR = 8


def advise_method(posed: Problem, client: Any = None) -> list[str]:
    """Say that the native product is faster, or not known to be slower, and why.

    `client`: that of the workers that would multiply. Nothing is said of small
    products, nor where an accuracy was given.
    """
    spec, choice = posed.spec, posed.choice
    if spec.native or choice.decisive or prod(posed.shape) < _LEAST_PRODUCT:
        return []
    chip = choice.chip
    if chip is None and client is not None:
        chip = chip_of_workers(client, spec.engine)
    about = spec.engine, spec.routine.name, posed.dtype, posed.shape, chip
    if not prefers_native(*about):
        return []
    return [f"method 'auto' would be {tell_choice(*about, decisive='')}"]


def advise_op(posed: Problem) -> list[str]:
    """Say how large the result is where the other op makes a far smaller one."""
    (n, _, k), spec = posed.shape, posed.spec
    if not spec.routine.triangle or n < _RANK_FACTOR * max(1, k):
        return []
    other = "C" if spec.routine.hermitian else "T"
    other = other if spec.op_a == "N" else "N"
    size = format_bytes(n * n * posed.dtype.itemsize * spec.components)
    return [f"C is {n} x {n}, {size}; with op {other} it would be {k} x {k}"]
