"""One product or update of stored matrices, as data."""

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..checks import ROUTINES
from ..moduli import ResidueSystem
from ..plan import Cluster
from ..store import StoredMatrix
from .layout import Layout, find_chunks, lay_out
from .writing import Mirror, conjugate_transpose

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Job:
    """A product or an update of stored matrices that has been checked.

    Attributes
    ----------
    routine : {"gemm", "herk", "syrk", "her2k", "syr2k"}
    a, b, c : StoredMatrix
        b is a for herk and syrk; c is None where beta is 0.
    output : str or os.PathLike
    overwrite : bool
    shape : tuple of int
        (m, n, k).
    dtype : numpy.dtype
        Of the result.
    system : ResidueSystem or None
        None for the native product.
    scalars : dict
        alpha and beta, and op_a and op_b of gemm, op and uplo of the others.
    options : dict
        The other arguments of the routine.
    """

    routine: str
    a: StoredMatrix
    b: StoredMatrix
    c: StoredMatrix | None
    output: Path
    overwrite: bool
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    system: ResidueSystem | None
    scalars: dict[str, Any]
    options: dict[str, Any]

    @property
    def operands(self) -> list[StoredMatrix]:
        """A, and B where the routine takes two matrices."""
        update = ROUTINES.get(self.routine)
        return [self.a, self.b] if update is None or update.two else [self.a]

    @property
    def inputs(self) -> dict[str, StoredMatrix]:
        """The matrices that are read, by letter; C0 is the C that is added."""
        matrices = {"A": self.a, "B": self.b, "C0": self.c}
        return {name: x for name, x in matrices.items() if x is not None}

    @property
    def engine(self) -> str:
        """The engine that is asked for: "auto" is settled when the job begins."""
        return str(self.options.get("engine", "auto"))

    def with_engine(self, engine: str) -> "Job":
        """Return the same job for an engine."""
        return replace(self, options={**self.options, "engine": engine})

    @property
    def mirror(self) -> Mirror | None:
        """What makes a tile that of the other triangle, where both are written."""
        if self.scalars.get("uplo") != "full":
            return None
        # In memory an empty update without C is zeros, none of them negative.
        zeros = self.c is None and (self.scalars["alpha"] == 0 or self.shape[2] == 0)
        conjugate = ROUTINES[self.routine].hermitian and not zeros
        return conjugate_transpose if conjugate else np.transpose

    def lay_out(self, cluster: Cluster, tile: int | None = None) -> Layout:
        """Choose tiles and waves for a cluster; see `twom_dist.jobs.lay_out`."""
        shared = {n: x for n, x in self.scalars.items() if n in ("beta", "uplo")}
        return lay_out(
            self.shape,
            self.dtype,
            cluster,
            routine=self.routine,
            tile=tile,
            chunks=find_chunks(self.routine, self.a, self.b, self.scalars),
            **shared,
            **self.options,
        )
