"""Costs of products, each printed as one line."""

from collections.abc import Sequence
from typing import NamedTuple

from dask.utils import format_bytes

from .show import name_count


class Cost(NamedTuple):
    """Cost of one product, or of several together.

    Attributes
    ----------
    what : str
        Name of the routine.
    products : int
        Number of products of matrices.
    tasks, int8_gemms, bytes_moved, peak_bytes : int
        Figures as in a `Plan`.
    num_moduli : int
        Number of moduli of each product; 0 if products differ in it.
    """

    what: str
    products: int
    tasks: int
    int8_gemms: int
    num_moduli: int
    bytes_moved: int
    peak_bytes: int

    def __str__(self) -> str:
        what = self.what
        if self.products != 1:
            what += f", {self.products} products"
        moduli = ""
        if self.num_moduli:
            moduli = f" with {name_count(self.num_moduli, 'modulus', 'moduli')}"
        return (
            f"{what}: {name_count(self.tasks, 'task')}, "
            f"{name_count(self.int8_gemms, 'int8 product')} of tiles{moduli}, "
            f"{format_bytes(self.bytes_moved)} moved, up to "
            f"{format_bytes(self.peak_bytes)} on a worker"
        )


def add_costs(what: str, costs: Sequence[Cost | None]) -> Cost | None:
    """Add up the known costs of products that run one after the other.

    Examples
    --------
    >>> print(add_costs("einsum", [Cost("gemm", 1, 4, 60, 15, 0, 999)] * 2))
    einsum, 2 products: 8 tasks, 120 int8 products of tiles with 15 moduli, 0 B moved,
    up to 0.98 kiB on a worker
    """
    known = [cost for cost in costs if cost is not None]
    if not known:
        return None
    moduli = {cost.num_moduli for cost in known}
    return Cost(
        what,
        products=sum(cost.products for cost in known),
        tasks=sum(cost.tasks for cost in known),
        int8_gemms=sum(cost.int8_gemms for cost in known),
        num_moduli=moduli.pop() if len(moduli) == 1 else 0,
        bytes_moved=sum(cost.bytes_moved for cost in known),
        peak_bytes=max(cost.peak_bytes for cost in known),
    )
