"""Explanations of products: how accurate they are, and why, without computing them."""

from dataclasses import replace
from typing import Any

from ..auto.choose import tell_choice
from ..jobs import check_call
from ..moduli.accuracy import AUTO_METHOD
from ..plan import Cluster, make_plan
from ..plan.explanation import Explanation, add_findings, explain_spec
from ..problem.problem import Problem, of_arrays, of_headers
from ..problem.sizes import check_known
from ..run.collection import look_at_arrays
from ..run.lazy import align, op_chunks
from ..tiles.grid import Grid, cut_strips
from ..tiles.spec import Spec
from .files import ask_job
from .plan_operands import is_header, take_matrices
from .routine import ask


def explain(
    routine: Any, /, *matrices: Any, dtype: Any = None, **options: Any
) -> Explanation:
    """Tell how accurate a product will be, and why, without computing it.

    Parameters
    ----------
    routine : function
        As in `plan`.
    *matrices : array, tuple of int, or path
        As in `plan`. The data of arrays and files are checked, except for batches. For
        shapes, the result contains what does not depend on the data.
    dtype : dtype, optional
        As in `plan`.
    **options
        As in the routine. With beta, C may be left out.

    Returns
    -------
    Explanation
        Print it, or read its attributes, which hold for the product itself.

    See Also
    --------
    plan : The cost of a call.
    gemm : The bounds that can be requested.

    Examples
    --------
    >>> import twom_dist as td
    >>> A, B = td.testing.random_matrix(300, 200), td.testing.random_matrix(200, 100)
    >>> print(td.explain(td.gemm, A, B))
    routine          gemm
    requested        accuracy componentwise
    method           2m, 17 moduli, 124.2 bits, 34 int8 GEMMs for each product of tiles
    error bound      1.8e-15 (|A| |B|)_ij
    rho              at most 82 by octaves of rows: ||a_i|| ||b_j|| / (|A| |B|)_ij
    equilibrated     no
    largest entries  2^2 to 2^6 in rows of op(A), 2^2 to 2^5 in columns of op(B)
    """
    job = ask_job(routine, matrices, options)
    call = job or ask(routine, matrices, options, explain)
    call = take_matrices(call, dtype, reading=True)
    if job is not None:
        check_call(call)  # whose dtype is known now
    if call.C is None:
        # The accuracy is that of the product that is added to C.
        call = call._replace(terms=call.terms._replace(beta=None))
    shapes = any(map(is_header, call.arrays().values()))
    posed = (of_headers if shapes else of_arrays)(call)
    explained = _explain(posed) if shapes or posed.system is None else _look(posed)
    choice = call.terms.choice
    if choice.method != AUTO_METHOD:
        return explained
    spec, decisive = posed.spec, choice.decisive
    told = f"int8, since {decisive} was given"
    if not decisive:
        told = tell_choice(spec.engine, spec.routine.name, spec.dtype, posed.shape)
    asked = f"method auto{f', {explained.asked}' if decisive else ''}"
    return replace(explained, asked=asked, choice=told)


def _explain(posed: Problem, spec: Spec | None = None) -> Explanation:
    return explain_spec(spec or posed.spec, posed.spec.data_driven, posed.choice.asked)


def _look(posed: Problem) -> Explanation:
    spec, settles = posed.spec, posed.spec.data_driven
    if spec.empty or spec.exact:
        return _explain(posed)
    check_known(posed.shape, "a matrix")
    operands = align(replace(posed, c=None))
    (m, k), n = op_chunks(operands.a, spec.op_a), op_chunks(operands.b, spec.op_b)[1]
    # What is found does not depend on the workers.
    plan = make_plan(replace(spec, lazy=True), (m, n, k), Cluster())
    # Tile by tile, and pair by pair, each where it lies.
    one = cut_strips(plan.grid.panels, 1)
    grid = Grid(plan.grid.m, plan.grid.n, plan.grid.k, plan.grid.layers, strips=one)
    # An explanation says what a lazy product would warn of.
    looking = replace(plan.spec, lazy=False)
    if not settles:
        # Analysed even so: the given moduli may not be able to do this.
        looking = replace(looking, data_driven=True, components=1)
    found = look_at_arrays(operands, grid, looking, lambda x: x.compute())
    known = {x: getattr(found.spec, x) for x in ("rho", "decided_by")}
    settled = found.spec if settles else replace(plan.spec, **known)
    return add_findings(_explain(posed, settled), found)
