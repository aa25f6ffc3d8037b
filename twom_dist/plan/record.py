"""The record of a plan, and how it is printed."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..accuracy import error_bound
from ..config import rate_setting
from ..tiles.grid import Grid
from ..tiles.placement import choose_grid
from ..tiles.spec import ProductSpec
from .chunks import SMALLEST_TILE


@dataclass(frozen=True)
class Plan:
    """The cost of a product or an update; `str` prints it, `to_json` keeps it.

    Attributes
    ----------
    routine : str
        "gemm", "herk", "syrk", "her2k" or "syr2k".
    uplo : {"full", "lower", "upper"} or None
        What an update returns; None for gemm.
    m, n, k : int
        ``op(A)`` is m x k, ``op(B)`` k x n; m = n for updates.
    dtype, method : str
    num_moduli, modulus_bits : int, float
        Moduli, and log2 of their product; 0 for the native product.
    tiles : tuple of int
        (mt, nt, kt): tiles along m, n, k.
    tile_shape : tuple of int
        (mb, nb, kb): the largest tile.
    panels : int
        Tasks along k for each C tile that is computed.
    num_tasks : int
        All tasks of the product, or of the update with its mirrored tiles.
    num_int8_gemms : int
        int8 tile products.
    int8_operations : int
        ``2 m n k`` for each product of a plane, of the tiles that are computed.
    bytes_moved : int
        Bytes between workers where each input tile starts on one that needs it: the
        volume of a 2-D SUMMA, or of a triangle's placement.
    communication_ratio : float
        Time to move over time to multiply, at `twom-dist.link-bytes-per-second` and
        `twom-dist.int8-ops-per-second` a worker.
    workers, idle_workers : int
        All of them, and those that get no tile of C.
    worker_grid : tuple of int or None
        (pr, pc): C tile (i, j) belongs to worker (i mod pr, j mod pc). None for
        updates: a triangle has a placement of its own.
    held_fraction : float or None
        Share of the rows of op(A) that the fullest worker needs, for updates.
    peak_worker_bytes : int
        Predicted peak on the fullest worker: inputs, outputs, encoded tiles and
        temporaries.
    cache_bytes : int
        Encoded tiles that a worker may keep.
    error_bound : float
        Bound of ``|dC_ij| / (||a_i|| ||b_j||)`` for alpha = 1, beta = 0, and for each
        of the two products of a rank-2k update.
    """

    routine: str
    uplo: str | None
    m: int
    n: int
    k: int
    dtype: str
    method: str
    num_moduli: int
    modulus_bits: float
    tiles: tuple[int, int, int]
    tile_shape: tuple[int, int, int]
    panels: int
    num_tasks: int
    num_int8_gemms: int
    int8_operations: int
    bytes_moved: int
    communication_ratio: float
    workers: int
    idle_workers: int
    worker_grid: tuple[int, int] | None
    held_fraction: float | None
    peak_worker_bytes: int
    cache_bytes: int
    error_bound: float

    def to_json(self) -> str:
        """Return the plan as one line of JSON.

        Returns
        -------
        str
            The attributes by name.
        """
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        return self.describe()

    def describe(self, *, chosen: bool = False) -> str:
        """Lay the plan out, one line for each subject.

        Parameters
        ----------
        chosen : bool
            Whether the tiles were chosen for these workers, as a job chooses them.

        Returns
        -------
        str
            As it is printed.
        """
        mt, nt, kt = self.tiles
        mb, nb, kb = self.tile_shape
        moduli = f"{self.num_moduli} moduli, {self.modulus_bits:.1f} bits"
        rows = [
            ("routine", self.routine + (f", {self.uplo}" if self.uplo else "")),
            ("product", f"{self.m} x {self.k} times {self.k} x {self.n}, {self.dtype}"),
            ("method", self.method + (f", {moduli}" if self.num_moduli else "")),
            ("error bound", f"{self.error_bound:.1e} ||a_i|| ||b_j||"),
            ("tiles", f"{mt} x {nt} of C, {kt} along k; up to {mb} x {nb} x {kb}"),
            ("tasks", f"{self.num_tasks}, {self.panels} panel(s) for each C tile"),
            (
                "int8 products",
                f"{self.num_int8_gemms} of tiles, {self.int8_operations:.3g} ops",
            ),
            ("workers", self._show_workers()),
            *([("idle", self._show_idle(chosen))] if self.idle_workers else []),
            ("moved", format_bytes(self.bytes_moved)),
            ("communication / computation", f"{self.communication_ratio:.2g}"),
            ("peak of a worker", format_bytes(self.peak_worker_bytes)),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def _show_workers(self) -> str:
        if self.worker_grid is not None:
            pr, pc = self.worker_grid
            return f"{self.workers}, as {pr} x {pc}"
        return f"{self.workers}, each with up to {self.held_fraction:.0%} of the rows"

    def _show_idle(self, chosen: bool) -> str:
        if self._halving_helps():
            what = "smaller tiles (chunks) would use them"
            # Not halved where it was chosen: the product takes a fraction of a second.
            what += " and gain little" if chosen else ""
        else:
            what = "fewer workers do as well"
        return f"{self.idle_workers} of {self.workers} workers get no tile of C; {what}"

    def _halving_helps(self) -> bool:
        """Whether tiles of half the side are worth making, and leave fewer idle."""
        if max(self.tile_shape[:2]) < 2 * SMALLEST_TILE:
            return False
        if self.worker_grid is None:
            return True
        mt, nt, _ = self.tiles
        halved = choose_grid(self.workers, 2 * mt, 2 * nt, 1, 1)
        return self.workers - halved.pr * halved.pc < self.idle_workers


def record_plan(
    grid: Grid,
    spec: ProductSpec,
    workers: int,
    *,
    int8_operations: int,
    bytes_moved: int,
    **others: Any,
) -> Plan:
    """Fill in what the plans of all routines say alike.

    Parameters
    ----------
    grid : Grid
    spec : ProductSpec
    workers : int
    int8_operations, bytes_moved : int
    **others
        The attributes of `Plan` that each routine knows for itself.
    """
    m, n, k = grid.shape
    move_seconds = bytes_moved / rate_setting("link-bytes-per-second")
    multiply_seconds = int8_operations / rate_setting("int8-ops-per-second")
    system = None if spec.native else spec.system
    return Plan(
        m=m,
        n=n,
        k=k,
        dtype=np.dtype(spec.dtype).name,
        method=spec.method,
        num_moduli=len(spec.moduli),
        modulus_bits=0.0 if system is None else system.modulus_bits,
        tiles=(grid.mt, grid.nt, grid.kt),
        tile_shape=(max(grid.m), max(grid.n), max(grid.k)),
        panels=len(grid.panels),
        int8_operations=int8_operations,
        bytes_moved=bytes_moved,
        communication_ratio=move_seconds / multiply_seconds if int8_operations else 0.0,
        workers=workers,
        cache_bytes=spec.cache_bytes,
        error_bound=error_bound(system, k, spec.dtype),
        **others,
    )


def format_bytes(count: int) -> str:
    """Show a number of bytes in the largest unit that it fills.

    Examples
    --------
    >>> format_bytes(1536)
    '1.5 KiB'
    """
    exponent = min(3, max(0, count.bit_length() - 1) // 10)
    return f"{count / 1024**exponent:.4g} {('B', 'KiB', 'MiB', 'GiB')[exponent]}"
