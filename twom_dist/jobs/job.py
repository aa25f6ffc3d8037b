"""One product of stored matrices, as data, and checks of its inputs."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import permutations
from typing import Any

import numpy as np

from ..config import check_settings
from ..errors import ArgumentError, PlanError, StoreError
from ..interop.dlpack import adopt
from ..kernels.finish import mirror_tile
from ..plan import Cluster, Layout, find_chunks, lay_out
from ..problem.call import Call
from ..problem.dtypes import INTEGERS
from ..problem.matrices import as_array
from ..problem.problem import Problem, check_matrices, of_headers
from ..store import StoredMatrix, Unfinished, find_unfinished, open_matrix, read_vector
from ..store._location import parse_location
from ..tiles.diagonal import Scaled
from ..typing import Array, as_flag
from .watchdog import ask

Path = str | os.PathLike[str]
Mirror = Callable[[Array], Array]  # makes the tile of the other triangle


@dataclass(frozen=True)
class Job(Problem):
    """A problem whose matrices are stored, and where its result is to be."""

    output: Path
    overwrite: bool = False  # as in `multiply_files`
    refuse_missing: bool = False
    command: str = ""  # what to type to continue it; empty for a call of Python
    # What is read before the job begins: where from, and a digest of it.
    vectors: dict[str, tuple[str, str]] = field(default_factory=dict)

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
    command: str = "",
) -> Job:
    """Open the inputs of a call of paths and stored arrays, and check their headers."""
    check_call(call)
    check_settings()
    terms, arrays = call.terms, call.arrays()
    given = {"A": arrays["A"], "B": call.B, "C0": call.C}
    paths = {x: y for x, y in given.items() if y is not None}
    for name, path in {**paths, "the output": output}.items():
        if not isinstance(path, str | os.PathLike):
            text = f"{name} is not a path but of type {type(path).__name__}"
            remedy = f"Give the path of a file; td.{terms.routine.name} takes arrays"
            raise ArgumentError(text, remedy, "not-a-path")
    stored = {x: open_matrix(path, terms.choice.pairs) for x, path in paths.items()}
    sources = {name: matrix.path for name, matrix in stored.items()}
    diag, origin, vectors = arrays.get("diag"), "in memory", {}
    if isinstance(diag, str | os.PathLike):
        location = parse_location(diag)
        origin, sources["diag"] = str(location), location.path
        diag = read_vector(diag)
    elif diag is not None:
        (diag,), _ = adopt(diag=diag)
        diag = np.asarray(as_array(diag, "diag"))
    if diag is not None:
        digest = sha256(diag.tobytes()).hexdigest()[:16]
        vectors["diag"] = origin, f"{diag.dtype} {digest}"
    _check_output(output, sources)
    a, b, c = Scaled(stored["A"], diag), stored.get("B"), stored.get("C0")
    return Job(
        **vars(of_headers(Call(terms, a, b, c))),
        output=output,
        overwrite=as_flag("overwrite", overwrite),
        refuse_missing=as_flag("refuse_missing", refuse_missing),
        command=command,
        vectors=vectors,
    )


def check_call(call: Call) -> None:
    """Refuse calls that no job makes, whatever its files are."""
    check_matrices(call.terms.routine, call.A, call.B)
    single = call.terms.choice.components == 1 and call.terms.letter not in INTEGERS
    if not single or call.out is not None or call.names is not None:
        text = "jobs take neither out nor dim"
        remedy = "Give td.gemm, td.herk or the like"
        if call.terms.letter in INTEGERS:
            text = f"jobs write real and complex numbers, not {call.terms.letter}"
            remedy = "Leave dtype out: double precision holds the same integers"
        elif call.terms.choice.components > 1:
            text = "jobs write one array, not two components"
        raise PlanError(text, remedy, "routine")


def _check_output(output: Path, inputs: dict[str, str]) -> None:
    """Refuse an output that would replace the file of an input, or lie inside it."""
    target = find_unfinished(output).location.path
    for name, path in inputs.items():
        if "://" in path:
            continue
        source = os.path.realpath(path)
        both = permutations((f"{source}/", f"{target}/"))
        nested = any(x.startswith(y) for x, y in both)
        # Through another mount a file has another path.
        if nested or (os.path.exists(target) and os.path.samefile(target, source)):
            same = f"the output {target!r} and the file of {name} are the same"
            problem = f"{same}, or one is inside the other"
            remedy = "Choose another name; for a sum of products, one for each step"
            raise PlanError(problem, remedy, "output-is-input")


Stamps = dict[str, str]  # by an input's letter, a text that changes with its files
Identity = list[Any]  # path, member, fingerprint and number of chunks of an input


def identify(stored: StoredMatrix) -> tuple[Identity, int]:
    """Identify an input without reading its chunks; count those that are missing."""
    there, whole = stored.count_chunks()
    member = stored.location.member or ""
    return [stored.path, member, stored.fingerprint, there], whole - there


def identify_inputs(job: Job) -> tuple[dict[str, Identity], Stamps, dict[str, int]]:
    """Identify and stamp all inputs, and count the chunks that are missing, if any.

    Every file is stamped before any is read: none may change later.
    """
    # One file may be two inputs.
    files = {*job.inputs.values()}
    stamps = {stored: stored.stamp() for stored in files}
    seen = {stored: identify(stored) for stored in files}
    missing = {}
    for name, stored in job.inputs.items():
        (*_, there), lacking = seen[stored]
        if lacking:
            missing[name] = lacking
        # If none exists, the folder was probably not copied whole.
        if lacking and (there == 0 or job.refuse_missing):
            count = "all" if there == 0 else str(lacking)
            chunks = f"{there + lacking} chunks of {str(stored.location)!r}"
            gone = f"{count} of the {chunks} are missing"
            problem = f"{gone}, and would be read as its fill value"
            remedy = "Copy it again, or write its zeros (write_empty_chunks in zarr)"
            code = "no-chunks" if there == 0 else "missing-chunks"
            raise StoreError(problem, remedy, code)
    inputs = job.inputs.items()
    return (
        {x: seen[y][0] for x, y in inputs},
        {x: stamps[y] for x, y in inputs},
        missing,
    )


def check_unchanged(job: Job, stamps: Stamps) -> None:
    """Raise if an input has changed since it was stamped."""
    for name, stored in job.inputs.items():
        same = False
        with suppress(StoreError):
            same = stamps[name] == stored.stamp()
        if not same:
            changed = f"{stored.path!r}, or its owner, permissions or links, changed"
            problem = f"{changed} since the run began, so the result may be a mixture"
            remedy = "Run the job again, and leave its inputs alone meanwhile"
            raise StoreError(f"{problem} and is discarded", remedy, "input-changed")


def check_workers(
    job: Job, inputs: dict[str, Identity], place: Unfinished, client: Any
) -> None:
    """Refuse workers that do not see the files that this process sees."""
    expected = [(x, inputs[name]) for name, x in job.inputs.items()]
    unlike = ask(client.run, _find_unlike, expected, place.lock_path)
    for address, found in unlike.items():
        if found is not None:
            problem, code = found
            share = "Keep the matrices where all workers find them"
            raise StoreError(f"the worker at {address} {problem}", share, code)


def _find_unlike(
    inputs: list[tuple[StoredMatrix, Identity]], lock_path: str
) -> tuple[str, str] | None:
    """Find the first file that differs from the client's; runs on workers."""
    try:
        for stored, expected in inputs:
            if identify(open_matrix(str(stored.location), stored.pairs))[0] != expected:
                problem = f"finds another file than this process at {expected[0]!r}"
                return problem, "input-differs-on-worker"
    except StoreError as error:
        return f"cannot read an input: {error.problem}", "file-not-on-worker"
    seen = os.path.exists(lock_path)
    return None if seen else (f"does not see {lock_path!r}", "file-not-on-worker")
