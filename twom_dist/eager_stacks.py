"""Stacks of NumPy and CuPy arrays: small matrices together, others one by one."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from . import eager
from .kernels.family import namespace
from .kernels.room import empty
from .problem import Problem
from .tiles.blocks import cast
from .tiles.spec import SIDES
from .tiles.stacks import compute_stack
from .typing import Array

# Rows, columns and k of matrices that are computed together: larger ones gain nothing,
# and tiles, strips and Winograd's algorithm are for one.
LARGEST = 512


def compute(problem: Problem) -> Any:
    """Compute the products of stacks: one array, or two with two words."""
    stack, spec, dtype = problem.stack, problem.spec, problem.dtype
    a, b = (
        _broadcast(eager.as_tiles(x, side, spec), stack)
        for x, side in zip((problem.a, problem.b), SIDES, strict=True)
    )
    c = None if problem.c is None else _broadcast(cast(problem.c, dtype), stack)
    left: Iterable[tuple[int, ...]] = np.ndindex(*stack)
    together = max(problem.shape) <= LARGEST or spec.native or spec.empty
    if together and spec.words == 1:
        found = compute_stack(a, b, spec, c, problem.out)
        results = [found.values]
        left = (_place(i, stack) for i in found.alone)
    else:
        shape = *stack, *problem.shape[:2]
        results = [empty(namespace(a), shape, dtype) for _ in range(spec.words)]
        if problem.out is not None:
            results = [problem.out]
    for place in left:
        # Of two words the routine makes its own arrays.
        out = results[0][place] if spec.words == 1 else None
        beside = None if c is None else c[place]
        one = replace(problem, a=a[place], b=b[place], c=beside, stack=(), out=out)
        words = eager.compute(one)
        if spec.words == 2:
            for result, word in zip(results, words, strict=True):
                result[place] = word
    return tuple(results) if spec.words == 2 else results[0]


def _broadcast(x: Array, stack: tuple[int, ...]) -> Array:
    """View a stack with all the axes in front."""
    return namespace(x).broadcast_to(x, (*stack, *x.shape[-2:]))


def _place(index: int, stack: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(index, stack)))
