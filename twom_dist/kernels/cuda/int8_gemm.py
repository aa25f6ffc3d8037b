"""The cuBLAS calls that multiply a tile's planes: pure integers, without a device.

Tensor cores want "TN": both operands K-major, which is how planes lie, leading
dimensions in multiples of 16. Row-major sums (m x n) are, to cuBLAS, the
column-major ``Y X^T``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from ...moduli import PlaneProduct, ResidueSystem
from .tuning import Element

# |sum| <= 2^16 * 128 * 128 = 2^30: the columns of k between two reductions modulo p.
LARGEST_K = 1 << 16
ALIGNMENT = 16


def align(length: int, to: int = ALIGNMENT) -> int:
    """Round up to what tensor cores take."""
    return -(-length // to) * to


def largest_k(moduli: Iterable[int], element: Element) -> int:
    """Columns of k between two reductions modulo any of these, in multiples of 16.

    Sums in float32 are exact below 2^24, and residues at most p // 2.

    Examples
    --------
    >>> [largest_k([p], "float16") for p in (97, 241, 256)]
    [7280, 1152, 1008]
    """
    if element == "int8":
        return LARGEST_K
    largest = max(moduli) // 2
    return ((1 << 24) - 1) // largest**2 // ALIGNMENT * ALIGNMENT


@dataclass(frozen=True)
class Batch:
    """Products whose planes lie at constant distances in memory.

    Attributes
    ----------
    products : tuple of int
    left, right : int
        Planes of the first one.
    step : int
        From one product's planes to the next one's, of either operand.
    """

    products: tuple[int, ...]
    left: int
    right: int
    step: int


def group_products(
    products: Sequence[PlaneProduct],
    own: Sequence[int],
    left_order: Sequence[int],
    right_order: Sequence[int],
    largest: int,
    only: int | None = None,
) -> Iterator[Batch]:
    """Group the products `own` into strided batches of at most `largest`.

    The orders tell where the planes of each operand stand in its memory; `only` is the
    one step that batches of several products may have.

    Examples
    --------
    >>> from twom_dist.moduli import residue_system
    >>> products, six = residue_system("2m", 3).products, range(6)
    >>> [batch.products for batch in group_products(products, six, six, six, 4)]
    [(0, 1, 2, 3), (4, 5)]
    >>> swapped = (1, 0, 3, 2, 5, 4)
    >>> [batch.products for batch in group_products(products, six, six, swapped, 4)]
    [(0, 2, 4), (1, 3, 5)]
    """
    apart: dict[int, list[tuple[int, int]]] = {}
    for q in own:
        left, right = left_order[products[q].left], right_order[products[q].right]
        apart.setdefault(right - left, []).append((q, left))
    for distance, members in apart.items():
        while members:
            gaps = [b - a for (_, a), (_, b) in pairwise(members)]
            step, count = gaps[0] if gaps else 0, 1
            if step > 0 and only in (None, step):
                count += sum(1 for _ in takewhile(step.__eq__, gaps))
            batch, members = members[:largest][:count], members[min(count, largest) :]
            (_, left), *_ = batch
            yield Batch(tuple(q for q, _ in batch), left, left + distance, step)


@dataclass(frozen=True)
class Cut:
    """Rows of X, products, and matrices of a stack, of one call.

    Their sums fit the buffer.
    """

    rows: int
    products: int
    matrices: int = 1


# Products of matrices of one call: blocks that a grid may have in z.
_LARGEST_BATCH = 65535


def cut_sums(
    m: int, n: int, buffer_bytes: int, stack: int = 1, widened_k: int = 0
) -> Cut:
    """Choose what of a product is made by one call, so that its sums fit.

    Whole stacks first, then whole matrices, then rows in multiples of 256, the tile of
    a tensor-core kernel; one such piece at least. `widened_k`: columns of planes in
    float16, for which there is as much room where more than one matrix fits.
    """
    row_bytes = 4 * align(n)
    widened = widened_bytes(Cut(m, 1), n, widened_k)
    each = max(align(m) * row_bytes, widened)
    fitting = min(_LARGEST_BATCH, buffer_bytes // each)
    if fitting > 0:
        matrices = min(stack, fitting)
        return Cut(m, fitting // matrices, matrices)
    rows = max(256, buffer_bytes // row_bytes // 256 * 256)
    return Cut(min(m, rows), 1)


def choose_widened_k(system: ResidueSystem, k: int, element: Element) -> int:
    """Count the columns of a call's planes in float16, at most; 0 in int8."""
    if element == "int8":
        return 0
    return min(align(k), largest_k([min(system.moduli)], element))


def widened_bytes(cut: Cut, n: int, widened_k: int) -> int:
    """Bytes of the planes of one call in float16."""
    rows = align(cut.rows) + align(n)
    return 2 * cut.products * cut.matrices * rows * widened_k
