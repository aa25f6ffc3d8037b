"""One product or update of stored matrices, as data."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np

from ..errors import ArgumentError, PlanError
from ..interop.dlpack import adopt
from ..interop.stored import find_path, is_on_disk
from ..kernels.finish import mirror_tile
from ..plan import Cluster, Layout, find_chunks, lay_out
from ..problem.call import Call
from ..problem.matrices import as_array
from ..problem.problem import Problem, check_matrices, of_headers
from ..store import StoredMatrix, find_unfinished, open_matrix, read_vector
from ..store._location import parse_location
from ..typing import Array, as_flag

Path = str | os.PathLike[str]
# Makes the tile of the other triangle.
Mirror = Callable[[Array], Array]


@dataclass(frozen=True)
class Job(Problem):
    """A problem whose matrices are stored, and where its result is to be.

    Attributes
    ----------
    output : str or os.PathLike
    overwrite, refuse_missing, verify : bool
        As in `multiply_files`.
    command : str
        What to type to continue it; empty for a call of Python.
    diag_path : str
        Where `diag` was read from; empty for an array.
    """

    output: Path
    overwrite: bool = False
    refuse_missing: bool = False
    verify: bool = False
    command: str = ""
    diag_path: str = ""

    @property
    def routine(self) -> str:
        """Name of the routine."""
        return self.spec.routine.name

    @property
    def engine(self) -> str:
        """The engine that is asked for: "auto" is settled when the job begins."""
        return self.spec.engine

    @property
    def inputs(self) -> dict[str, StoredMatrix]:
        """The matrices that are read, by letter; C0 is the C that is added."""
        right = None if self.spec.routine.matrices == 1 else self.b
        matrices = {"A": self.a, "B": right, "C0": self.c}
        return {name: x for name, x in matrices.items() if x is not None}

    @property
    def mirror(self) -> Mirror | None:
        """Function that mirrors a tile to the other triangle, if both are written."""
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


def open_job(
    call: Call,
    output: Path,
    *,
    overwrite: bool = False,
    refuse_missing: bool = False,
    verify: bool = False,
    command: str = "",
) -> Job:
    """Open the inputs of a call of paths and stored arrays, and check their headers."""
    check_call(call)
    terms, a, b, c = call[:4]
    given = {"A": a, "B": b, "C0": c}
    paths = {name: path for name, path in given.items() if path is not None}
    paths = {x: find_path(y, x) if is_on_disk(y) else y for x, y in paths.items()}
    for name, path in {**paths, "the output": output}.items():
        if not isinstance(path, str | os.PathLike):
            text = f"{name} is a {type(path).__name__}, not a path"
            remedy = "Give the path of a file"
            if name in paths:
                itself = f"td.{terms.routine.name}, which takes arrays"
                remedy = f"Store it and give its path, or call {itself}"
            raise ArgumentError(text, remedy, "not-a-path")
    stored = {name: open_matrix(path) for name, path in paths.items()}
    sources = {name: matrix.path for name, matrix in stored.items()}
    diag, diag_path = call.diag, ""
    if isinstance(diag, str | os.PathLike):
        location = parse_location(diag)
        diag_path, sources["diag"] = str(location), location.path
        diag = read_vector(diag)
    elif diag is not None:
        (diag,), _ = adopt(diag=diag)
        diag = np.asarray(as_array(diag, "diag"))
    _check_output(output, sources)
    given = {"A": stored["A"], "B": stored.get("B"), "C": stored.get("C0")}
    posed = of_headers(terms, **given, diag=diag)
    return Job(
        **vars(posed),
        output=output,
        overwrite=as_flag("overwrite", overwrite),
        refuse_missing=as_flag("refuse_missing", refuse_missing),
        verify=as_flag("verify", verify),
        command=command,
        diag_path=diag_path,
    )


def check_call(call: Call) -> None:
    """Refuse calls that no job makes, whatever its files are."""
    check_matrices(call.terms.routine, call.A, call.B)
    choice = call.terms.choice
    if choice.pairs:
        text = "files hold matrices of two dimensions, not pairs"
        remedy = "Open the files with zarr or h5py, and give td.integers the arrays"
        raise PlanError(text, remedy, "pairs")
    if choice.words > 1 or call.out is not None or call.names is not None:
        text = "products of files take no out and no dim, and have a single result"
        raise PlanError(text, "Call another routine, such as td.gemm", "routine")


def _check_output(output: Path, inputs: dict[str, str]) -> None:
    """Refuse an output that would replace the file of an input, or lie inside it."""
    target = find_unfinished(output).location.path
    for name, path in inputs.items():
        source = path if "://" in path else os.path.realpath(path)
        nested = any(
            f"{x}/".startswith(f"{y}/") for x, y in permutations((source, target))
        )
        # Through another mount a file has another path.
        local = "://" not in source + target and os.path.exists(target)
        if nested or (local and os.path.samefile(target, source)):
            problem = (
                f"the output {target!r} is the file of {name}, or one is in the other, "
                "and inputs are never written to"
            )
            remedy = "Choose another name"
            if name == "C0":
                remedy = "Write each sum to a file of its own, and name it as next C0"
            raise PlanError(problem, remedy, "output-is-input")
