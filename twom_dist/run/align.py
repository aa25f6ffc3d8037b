"""Align chunks: k of both operands cut alike, C cut like the product."""

from collections.abc import Iterable
from typing import Any

from ..errors import PlanError
from ..problem.sizes import is_unknown, same_sizes
from ..tiles.grid import Chunks
from ..typing import Op


def op_chunks(x: Any, op: Op) -> tuple[Chunks, Chunks]:
    """Chunks of op(x)."""
    rows, columns = x.chunks
    return (rows, columns) if op == "N" else (columns, rows)


def align_inner(a: Any, b: Any, op_a: Op, op_b: Op) -> tuple[Any, Any]:
    """Rechunk the smaller operand along k where the two are cut differently.

    It uses tasks: a peer-to-peer shuffle needs a cluster, and barriers that would hold
    up the products.
    """
    a_k, b_k = op_chunks(a, op_a)[1], op_chunks(b, op_b)[0]
    if a_k == b_k:
        return a, b
    if a.size < b.size:
        return a.rechunk({_inner_axis("left", op_a): b_k}, method="tasks"), b
    return a, b.rechunk({_inner_axis("right", op_b): a_k}, method="tasks")


def _inner_axis(side: str, op: Op) -> int:
    return 1 if (op == "N") == (side == "left") else 0


def align_result(c: Any, chunks: tuple[Chunks, Chunks], name: str = "C") -> Any:
    """Rechunk C like the product, or the B of an update like its A.

    Chunks of unknown size are taken to be alike if they are as many.
    """
    if c is None or c.chunks == chunks:
        return c
    if has_unknown(chunks) or has_unknown(c.chunks):
        both = zip(c.chunks, chunks, strict=True)
        if all(len(x) == len(y) and same_sizes(x, y) for x, y in both):
            return c
        raise PlanError(
            f"{name} would have to be rechunked, and some chunks are of unknown size",
            "Call the method compute_chunk_sizes() of the arrays first",
            "unknown-chunks",
        )
    return c.rechunk(chunks, method="tasks")


def has_unknown(chunks: Iterable[Iterable[Any]]) -> bool:
    """Tell whether some chunks are of unknown size."""
    return any(is_unknown(size) for sizes in chunks for size in sizes)


def estimate_sizes(sizes: Chunks, inner: Chunks) -> Chunks:
    """Take chunks of unknown size to be as large as the largest one along k."""
    return tuple(max(inner) if is_unknown(size) else size for size in sizes)
