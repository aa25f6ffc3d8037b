"""Layouts of jobs whose matrices are shapes alone."""

from typing import Any

import twom_dist as td
from twom_dist.plan import Cluster, Layout
from twom_dist.plan import lay_out as lay_out_spec
from twom_dist.plan.memory import MemoryBudget
from twom_dist.problem import problem
from twom_dist.problem.matrices import read_shape
from twom_dist.tiles.routine import ROUTINES

Shape = tuple[int, int, int]


def small(limit: int) -> Cluster:
    """Two workers with so little memory that a job takes waves."""
    return Cluster(2, 1, MemoryBudget(limit, "device"))


def pose(
    shape: Shape, dtype: Any = "c16", routine: str = "gemm", **arguments: Any
) -> problem.Problem:
    """Pose the problem of a routine on matrices of shape (m, n, k)."""
    rule, (m, n, k) = ROUTINES[routine], shape
    if arguments.get("op", "N") == "N":
        a, b = (m, k), (n, k) if rule.triangle else (k, n)
    else:
        a = b = (k, n)
    c = read_shape("C", (m, n), dtype) if arguments.get("beta", 0) != 0 else None
    left, right = read_shape("A", a, dtype), read_shape("B", b, dtype)
    matrices = {"A": left, "B": right} if rule.matrices == 2 else {"A": left}
    call = getattr(td, routine).ask(**matrices, C=c, **arguments)
    return problem.of_headers(*call[:4])


def lay_out(
    shape: Shape,
    dtype: Any,
    cluster: Cluster,
    *,
    routine: str = "gemm",
    tile: int | None = None,
    chunks: Shape = (1, 1, 1),
    **arguments: Any,
) -> Layout:
    """Lay out a routine on matrices of shape (m, n, k)."""
    spec = pose(shape, dtype, routine, **arguments).spec
    return lay_out_spec(spec, shape, cluster, tile=tile, chunks=chunks)
