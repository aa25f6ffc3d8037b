"""Progress of a running job, and the summary of a finished one."""

import json
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np

from ..plan.explanation import Explanation
from ..plan.show import Rows, as_html, name_count
from ..tiles.routine import ROUTINES


def count_operations(m: int, n: int, k: int, dtype: Any, routine: str = "gemm") -> int:
    """Count the operations of the native product: 8mnk complex, 2mnk real.

    A triangle of one product (herk, syrk) takes half as many, one of two as many.
    """
    each = 8 if np.dtype(dtype).kind == "c" else 2
    rule = ROUTINES[routine]
    return (each // 2 if rule.triangle and not rule.sums else each) * m * n * k


def gflops(operations: int, seconds: float) -> float:
    """Operations per second in units of 1e9."""
    return operations / max(seconds, 1e-9) / 1e9


@dataclass(frozen=True)
class Progress:
    """The progress of a job.

    Attributes
    ----------
    done, tiles : int
        Tiles computed and written so far, by this run or one that it continues, and
        all tiles; an update counts those of one triangle.
    operations : int
        Effective floating-point operations of the tiles that this run has done.
    seconds : float
        Since the first product was submitted, after the look at the inputs.
    """

    done: int
    tiles: int
    operations: int
    seconds: float

    @property
    def gflops(self) -> float:
        """Effective GFLOP/s of the products so far."""
        return gflops(self.operations, self.seconds)


@dataclass(frozen=True, repr=False)
class JobSummary:
    """A finished job.

    Attributes
    ----------
    path, routine, method, engine : str
        Where the result is, and how it was computed.
    shape, dtype : tuple of int, numpy.dtype
        (m, n, k): the result is m x n, and sums have k terms.
    tiles, tile_shape : tuple of int
        Tiles along m, n and k, and the largest of them: (mb, nb, kb).
    waves : int
        Parts of the result that were computed one after the other; more than one
        where the workers cannot hold the inputs at once.
    num_moduli, resumed, damaged : int
        Moduli, 0 for the native product; tiles that an earlier run had finished; those
        of them that the disk had damaged, which were computed again.
    seconds, gflops : float
        From the first task to the finished file, without the check of `verify`;
        effective GFLOP/s of this run.
    operations : int
        Effective floating-point operations of this run: for all tiles 8mnk if complex,
        2mnk if real, and half as many for herk and syrk.
    missing : dict
        Missing chunks of each zarr or HDF5 input, which were read as its fill value.
    residual, residual_bound : float or None
        Residual that `verify` found in the worst row, and the largest that it allows,
        relative as in `twom_dist.testing.row_residuals`; NaN where no row is finite.
    explanation : Explanation
        How accurate the result is, and why.
    """

    path: str
    routine: str
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    tiles: tuple[int, int, int]
    tile_shape: tuple[int, int, int]
    waves: int
    method: str
    num_moduli: int
    engine: str
    seconds: float
    resumed: int
    operations: int
    missing: dict[str, int]
    damaged: int = 0
    residual: float | None = None
    residual_bound: float | None = None
    explanation: Explanation | None = None

    @property
    def gflops(self) -> float:
        """Effective GFLOP/s of this run."""
        return gflops(self.operations, self.seconds)

    def to_json(self) -> str:
        """Return the summary as one line of JSON.

        Returns
        -------
        str
            The attributes by name; null for NaN and Inf, which JSON does not have.
        """
        figures = asdict(self) | {"dtype": self.dtype.name, "gflops": self.gflops}
        for name, x in figures.items():
            if isinstance(x, float) and not isfinite(x):
                figures[name] = None
        return json.dumps(figures)

    def __str__(self) -> str:
        figures, notes = self._list_figures(), self._list_notes()
        text = f"{self.path}: " + ", ".join(value for _, value in figures)
        return "; ".join([text, *(value for _, value in notes)])

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        rows = [*self._list_figures(), *self._list_notes()]
        return as_html(f"Job: {self.path}", rows)

    def _list_figures(self) -> Rows:
        (m, n, _), (mt, nt, kt) = self.shape, self.tiles
        moduli = ""
        if self.num_moduli:
            moduli = f" with {name_count(self.num_moduli, 'modulus', 'moduli')}"
        waves = f" in {self.waves} waves" if self.waves > 1 else ""
        resumed = f", {self.resumed} of them from before" if self.resumed else ""
        return [
            ("routine", self.routine),
            ("result", f"{m} x {n} {self.dtype}"),
            ("tiles", f"{mt} x {nt} tiles{waves}{resumed} (k in {kt})"),
            ("method", f"{self.method}{moduli}"),
            ("engine", self.engine),
            ("time", f"{self.seconds:.1f} s"),
            ("speed", f"{self.gflops:.1f} GFLOP/s"),
        ]

    def _list_notes(self) -> Rows:
        read = "are missing, and read as its fill value"
        notes = [
            ("input", f"{count} chunks of {name} {read}")
            for name, count in self.missing.items()
        ]
        if self.damaged:
            tiles = name_count(self.damaged, "tile", "tiles")
            damage = f"{tiles} from before found damaged on disk and computed again"
            notes.append(("damage", damage))
        if self.residual is not None:
            allowed = f"{self.residual_bound:.1e} allowed"
            notes.append(("check", f"residual {self.residual:.1e} ({allowed})"))
        return notes
