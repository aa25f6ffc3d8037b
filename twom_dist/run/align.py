"""Align chunks: k of both operands cut alike, C cut like the product."""

from typing import Any

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


def align_result(c: Any, chunks: tuple[Chunks, Chunks]) -> Any:
    """Rechunk C like the product."""
    return c if c is None or c.chunks == chunks else c.rechunk(chunks, method="tasks")
