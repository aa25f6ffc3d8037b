"""One product or update of stored matrices, as data."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from ..kernels.finish import mirror_tile
from ..moduli import ResidueSystem
from ..plan import Cluster, Layout, find_chunks, lay_out
from ..problem import Problem
from ..store import StoredMatrix
from ..tiles.spec import Spec
from ..typing import Array

Path = str | os.PathLike[str]
# Makes the tile of the other triangle.
Mirror = Callable[[Array], Array]


@dataclass(frozen=True)
class Job:
    """A product or an update of stored matrices that has been checked.

    Attributes
    ----------
    problem : Problem
        Its matrices are stored ones.
    output : str or os.PathLike
    overwrite : bool
    refuse_missing : bool
        Whether inputs of which chunks are missing are refused.
    verify : bool
        Whether the result is checked before it gets its name.
    """

    problem: Problem
    output: Path
    overwrite: bool
    refuse_missing: bool = False
    verify: bool = False

    @property
    def routine(self) -> str:
        """Name of the routine."""
        return self.spec.routine.name

    @property
    def spec(self) -> Spec:
        """What the tasks are told."""
        return self.problem.spec

    @property
    def a(self) -> StoredMatrix:
        """The matrix A."""
        return cast(StoredMatrix, self.problem.a)

    @property
    def b(self) -> StoredMatrix:
        """The matrix B; A for herk and syrk."""
        return cast(StoredMatrix, self.problem.b)

    @property
    def c(self) -> StoredMatrix | None:
        """The matrix C; None where beta is 0."""
        return cast(StoredMatrix | None, self.problem.c)

    @property
    def inputs(self) -> dict[str, StoredMatrix]:
        """The matrices that are read, by letter; C0 is the C that is added."""
        matrices = {"A": self.a, "B": self.b, "C0": self.c}
        return {name: x for name, x in matrices.items() if x is not None}

    @property
    def shape(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        return self.problem.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the result."""
        return self.problem.dtype

    @property
    def system(self) -> ResidueSystem | None:
        """The residue system; None for the native product."""
        return self.problem.system

    @property
    def engine(self) -> str:
        """The engine that is asked for: "auto" is settled when the job begins."""
        return self.spec.engine

    def with_engine(self, engine: str) -> "Job":
        """Return the same job for an engine."""
        return replace(self, problem=self.problem.with_engine(engine))

    @property
    def mirror(self) -> Mirror | None:
        """What makes a tile that of the other triangle, where both are written."""
        routine = self.spec.routine
        if not routine.triangle or self.spec.uplo != "full":
            return None
        return partial(mirror_tile, conjugate=routine.hermitian)

    def lay_out(
        self, cluster: Cluster, tile: int | tuple[int, ...] | None = None
    ) -> Layout:
        """Choose tiles and waves for a cluster; see `twom_dist.plan.lay_out`."""
        chunks = find_chunks(self.spec, self.a, self.b)
        return lay_out(self.spec, self.shape, cluster, tile=tile, chunks=chunks)
