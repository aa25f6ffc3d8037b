"""Explaining a product: how accurate it is, and why, before it is computed."""

import os
from dataclasses import replace
from typing import Any

import numpy as np

from ..interop.dlpack import adopt
from ..interop.xarray import as_arrays
from ..moduli.accuracy import AUTO_METHOD
from ..plan import LARGEST_TILE, Cluster, make_plan
from ..plan.explanation import Explanation, add_findings, explain_spec
from ..problem import problem
from ..problem.crossover import may_be_native, tell_choice
from ..problem.exact import check_pairs
from ..problem.matrices import Header, as_matrix, check_single
from ..problem.problem import Problem
from ..run.align import op_chunks
from ..run.collection import look_at_arrays
from ..run.lazy import align
from ..store import open_matrix
from ..tiles.spec import Spec


def explain(
    A: Any, B: Any = None, *, routine: str = "gemm", **options: Any
) -> Explanation:
    """Say how accurate a product will be, and why; nothing is multiplied.

    Parameters
    ----------
    A : array, path or (int, int)
        Any matrix that `gemm` takes, one of a stack, a file that `multiply_files`
        reads, or a shape, of which all is known that the matrices do not decide.
    B : array, path or (int, int), optional
        The second matrix of gemm, her2k and syr2k.
    routine : {"gemm", "herk", "syrk", "her2k", "syr2k"}
    **options
        As in the routine: alpha, op_a, op_b, op, dim, accuracy, num_moduli, method,
        out, equilibrate, pairs.

    Returns
    -------
    Explanation
        Print it. Moduli, equilibration and rho are those of the product itself.

    Raises
    ------
    TwomError
        As the routine does.

    Examples
    --------
    >>> import numpy as np
    >>> import twom_dist as td
    >>> A = np.random.default_rng(0).random((50, 40))
    >>> B = 1e9 ** np.linspace(-1, 1, 40)[:, np.newaxis] * np.ones((40, 30))
    >>> found = td.explain(A / B[:, 0], B)
    >>> found.num_moduli, found.equilibrated
    (15, 29)
    """
    rule, dim = problem.find_routine(routine), options.pop("dim", None)
    problem.check_names(rule, options, f"explain of {rule.name}", ("alpha", "dim"))
    problem.check_matrices(rule, A, B)
    if dim is not None:
        A, B = as_arrays(rule, dim, options, A, B)
    (A, B), _ = adopt(labelled=True, A=A, B=B)
    pairs = check_pairs(options)
    left, right = (
        x if x is None or pairs else _open(x, y) for x, y in ((A, "A"), (B, "B"))
    )
    shapes = any(isinstance(x, Header) for x in (left, right))
    pose = problem.of_headers if shapes else problem.of_arrays
    posed = pose(rule, left, right, None, None, **options)
    explained = _explain(posed) if shapes or posed.system is None else _look(posed)
    if options.get("method") != AUTO_METHOD:
        return explained
    left_open = may_be_native(options)
    return replace(
        explained,
        asked=f"method auto{'' if left_open else f', {explained.asked}'}",
        choice=tell_choice(posed.spec, posed.shape, options),
    )


def _explain(posed: Problem, spec: Spec | None = None) -> Explanation:
    """Explain what a problem says, or a spec that its matrices have settled."""
    return explain_spec(spec or posed.spec, posed.spec.grade, posed.options)


def _look(posed: Problem) -> Explanation:
    """Explain what the matrices have settled."""
    spec, grade = posed.spec, posed.spec.grade
    if spec.empty or spec.exact:
        return _explain(posed)
    a, b, _ = align(posed)
    (m, k), n = op_chunks(a, spec.op_a), op_chunks(b, spec.op_b)[1]
    # What is found does not depend on the workers.
    plan = make_plan(replace(spec, lazy=True), (m, n, k), Cluster())
    # Looked at even where the moduli are given.
    looking = replace(plan.spec, grade=grade or "native")
    found = look_at_arrays(a, b, plan.grid, looking, lambda x: x.compute())
    settled = found.spec if grade else replace(plan.spec, rho=found.spec.rho)
    return add_findings(_explain(posed, settled), found)


def _open(x: Any, name: str) -> Any:
    """Return an array, the dask array of a file, or the header of a shape."""
    if isinstance(x, str | os.PathLike):
        from dask.array.core import from_array

        stored = open_matrix(x)
        meta = np.empty((0, 0), stored.dtype)
        return from_array(stored, chunks=LARGEST_TILE, asarray=False, meta=meta)
    if isinstance(x, tuple) and len(x) == 2 and all(np.ndim(t) == 0 for t in x):
        return Header(name, x, "complex128")
    return check_single(as_matrix(x, name), name)
