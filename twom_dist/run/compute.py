"""The choice of the driver that computes a problem, by the kinds of its matrices."""

from functools import partial
from typing import Any

from ..kernels.device_memory import try_with_less
from ..problem.matrices import is_dask
from ..problem.problem import Problem


def compute(posed: Problem) -> Any:
    """Compute a problem of arrays: now, or lazily if one of them is a dask array."""
    if posed.spec.lazy or any(map(is_dask, posed.matrices)):
        from . import lazy, lazy_stacks

        return (lazy_stacks if posed.stack else lazy).compute(posed)
    from . import eager, stacks

    driver = stacks if posed.stack else eager
    return try_with_less(partial(driver.compute, posed))
