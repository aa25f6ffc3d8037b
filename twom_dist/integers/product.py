"""Exact products of integers whose sums exceed a double, as integers."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..errors import ArgumentError, PlanError, portable_errors, shown
from ..interop.dlpack import adopt
from ..kernels.family import Family, empty_block, family_of, namespace
from ..problem.arguments import checked
from ..problem.call import Call, Terms
from ..problem.choice import Choice
from ..problem.exact import (
    LARGEST_RESULT,
    describe_tiles,
    find_samples,
    share_room,
    shortest_exact,
)
from ..problem.integer_valued import (
    as_integers,
    check_lazily,
    find_largest,
    is_floating,
    largest_whole,
)
from ..problem.matrices import Header, as_matrix, common_family, dask_array, is_dask
from ..problem.pairs import as_pairs, check_parts
from ..problem.problem import Problem, of_headers
from ..run.prepared import compute
from ..tiles.integers import largest_magnitude, pair_dtype
from ..tiles.routine import ROUTINES
from ..typing import EngineName, as_flag

STAGE = "twom-integers"  # the prefix that dashboards group the tasks by
LARGEST_SUM = 1 << 94  # of two doubles, whose upper words fit int64
_OTHER = "For integers of any size use fmpz_mat of python-flint"


@checked
def matmul(
    A: Any,
    B: Any,
    *,
    pairs: bool = False,
    dtype: Any = None,
    engine: EngineName = "auto",
) -> Any:
    """Multiply matrices of integers, or of Gaussian integers, exactly: ``A B``.

    Parameters
    ----------
    A : (..., m, k) array, or (..., m, k, 2) with pairs
        NumPy, CuPy or dask array of integers or booleans; or of floating-point numbers
        with integer values (complex for Gaussian integers). Leading axes are batch
        axes. Entries up to 2^53.
    B : (..., k, n) array, or (..., k, n, 2) with pairs
        Like A.
    pairs : bool, optional
        True if the last axes hold real and imaginary parts.
    dtype : dtype, optional
        Dtype of the result: int64 (default), or another integer dtype such as int32 or
        uint64.
    engine : {"auto", "cpu", "cuda", "reference"}, optional
        As in `gemm`.

    Returns
    -------
    (..., m, n) array, or (..., m, n, 2) with pairs or if A or B is complex
        A dask array if A or B is a dask array. The last axis of length 2 holds real and
        imaginary parts.

    Raises
    ------
    PlanError
        For an entry of the product that does not fit the dtype; an entry that is not an
        integer of at most 2^53 (2^24 in single precision); and sums that may exceed
        2^94. For dask arrays when the chunk is computed.

    See Also
    --------
    gemm : Exact products up to 2^53, faster, as doubles; also of files.

    Notes
    -----
    The number of moduli grows with the entries in memory, and with the dtypes of dask
    arrays. Results beyond 2^53 are sums of two doubles before they become integers. In
    dask arrays of 64 bits an entry above ``sqrt(2^94 / k)`` is refused when its block
    is read. Larger integers are for ``fmpz_mat`` of python-flint.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> A = np.array([[2**40 + 1, 3], [-5, 2**40]])
    >>> td.integers.matmul(A, np.array([[7, 0], [1, 2**22]]))
    array([[      7696581394442,            12582912],
           [      1099511627741, 4611686018427387904]])
    """
    kind = _as_integer_dtype(np.int64 if dtype is None else dtype)
    (A, B), give_back = adopt(A=A, B=B)
    family = common_family(A=A, B=B)
    pairs, a, b = _take(as_flag("pairs", pairs), as_matrix(A, "A"), as_matrix(B, "B"))
    terms = Terms(ROUTINES["gemm"], Choice.exact(pairs=pairs, engine=engine))
    posed = _pose(terms, a, b, family)
    room = LARGEST_SUM // max(1, (1 + pairs) * posed.shape[2])
    known = _find_largest(a), _find_largest(b)
    largest = [min(x, LARGEST_RESULT) for x in share_room(room, known)]
    a, b = map(_limit, (a, b), known, "AB", largest)
    found = _multiply(a, b, largest, posed)
    finish = partial(_finish, np.dtype(kind).str, pairs)
    if not is_dask(found[0]):
        return give_back(finish(*found))
    more: dict[str, Any] = {}
    if pairs:
        more = {"new_axis": found[0].ndim, "chunks": (*found[0].chunks, (2,))}
    more |= {"dtype": kind, "meta": empty_block(family_of(found[0]._meta), kind)}
    return dask_array().map_blocks(finish, *found, token=STAGE, **more)


def _take(pairs: bool, A: Any, B: Any) -> tuple[bool, Any, Any]:
    """Return matrices of integers, as pairs if they are or one is complex."""
    given = A, B
    if pairs and any(is_floating(x.dtype) for x in given):
        text = "pairs=True is for integers, but A or B is in floating point"
        raise ArgumentError(text, "Convert it, or leave pairs out", "pairs-dtype")
    a, b = (_as_integers(x, name) for x, name in zip(given, "AB", strict=True))
    if "c" not in [x.dtype.kind for x in given]:
        return pairs, a, b
    a, b = (
        y if x.dtype.kind == "c" else _with_imaginary(y)
        for x, y in zip(given, (a, b), strict=True)
    )
    return True, a, b


def _as_integers(x: Any, name: str) -> Any:
    if is_floating(x.dtype):
        if not is_dask(x):
            find_largest(x, name, largest_whole(x.dtype))
        return as_integers(check_lazily(x, name, largest_whole(x.dtype)), "int64")
    if x.dtype.kind not in "biu":
        problem = f"{name} has dtype {x.dtype}, which is not one of integers"
        raise ArgumentError(problem, "Convert it with astype", "gaussian-dtype")
    return x


def _find_largest(x: Any) -> int | None:
    """Return the largest magnitude; None where only blocks of 64 bits will tell."""
    if is_dask(x):
        return None if x.dtype.itemsize == 8 else largest_magnitude(x.dtype)
    if x.dtype.kind == "b":
        return 1
    return max(int(x.max()), -int(x.min())) if x.size else 0


def _limit(x: Any, known: int | None, name: str, limit: int) -> Any:
    """Refuse larger entries, of a dask array when its blocks are read."""
    if known is None:
        given = {"dtype": x.dtype, "meta": x._meta, "token": STAGE}
        return x.map_blocks(_check_block, name, limit, **given)
    if known > limit:
        raise _too_large(name, limit)
    return x


def _check_block(x: Any, name: str, limit: int) -> Any:
    with portable_errors():
        if x.size and (x.max() > limit or x.min() < -limit):
            raise _too_large(name, limit)
    return x


def _too_large(name: str, limit: int) -> PlanError:
    problem = f"{name} has an entry beyond {limit}"
    return PlanError(problem, _OTHER, "integer-range")


def _with_imaginary(x: Any) -> Any:
    """Return integers as pairs whose imaginary parts are zeros."""
    xp = dask_array() if is_dask(x) else namespace(x)
    return xp.stack((x, xp.zeros_like(x)), axis=-1)


def _as_integer_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError):
        found = np.dtype(bool)
    if found.kind not in "iu":
        problem = f"dtype={shown(dtype)} is not one of integers"
        raise ArgumentError(problem, "Use one such as int64 or int32", "dtype")
    return found.newbyteorder("=")


def _pose(terms: Terms, a: Any, b: Any, family: Family) -> Problem:
    """Pose the product of matrices of these shapes, whose moduli are chosen later."""
    pairs = terms.choice.pairs

    def outline(x: Any, name: str) -> Header:
        if pairs:
            check_parts(x, name)
        return Header(x.shape[:-1] if pairs else x.shape, np.dtype(np.int8))

    return of_headers(Call(terms, outline(a, "A"), outline(b, "B")), family)


def _multiply(x: Any, y: Any, largest: list[int], posed: Problem) -> tuple[Any, ...]:
    """Multiply integers up to these magnitudes: one double an entry, or two."""
    pairs = posed.choice.pairs
    bound = (1 + pairs) * posed.shape[2] * largest[0] * largest[1]
    if bound > LARGEST_SUM:
        problem = f"sums of k={posed.shape[2]} products may exceed 2^94"
        raise PlanError(problem, _OTHER, "integer-range")
    system = find_samples(pairs, bound, x.dtype, y.dtype)
    if system is None:
        system = shortest_exact("2m", pairs, bound, *largest)
    assert system is not None  # of 95 bits
    left, right = (pair_dtype(t.dtype) if pairs else t.dtype for t in (x, y))
    engine = posed.spec.engine
    tiles = describe_tiles(left, right, max(largest), engine, system)
    a, b = (
        as_pairs(t, name, kind) if pairs else as_matrix(t, name)
        for t, name, kind in zip(
            (x, y), "AB", tiles["stored"] or (None,) * 2, strict=True
        )
    )
    one = bound <= LARGEST_RESULT
    own = {"method": system.method, "moduli": system.choice, **tiles}
    spec = replace(posed.spec, components=1 if one else 2, **own)
    found = compute(replace(posed, a=a, b=b, spec=spec))
    return (found,) if one else tuple(found)


def _finish(dtype: str, pairs: bool, *components: Any) -> Any:
    """Return sums of one double or two as integers; refuse those that do not fit."""
    with portable_errors():
        if pairs:
            components = tuple(x.view("f8").reshape(*x.shape, 2) for x in components)
        high = np.floor(components[0] * 2.0**-32)
        words, low = (
            x.astype(np.int64) for x in (high, components[0] - high * 2.0**32)
        )
        for rest in components[1:]:
            low += rest.astype(np.int64)
        words += low >> 32
        bounds = np.iinfo(dtype)
        least, most = (x >> 32 for x in (int(bounds.min), int(bounds.max)))
        fits = ((words >= least) & (words <= most)).all()
        found = (words << 32) | (low & 0xFFFFFFFF)
        if bounds.dtype.itemsize < 8:
            fits = fits and ((found >= bounds.min) & (found <= bounds.max)).all()
        if not fits:
            problem = f"an entry of the product does not fit {bounds.dtype.name}"
            raise PlanError(problem, _OTHER, "integer-overflow")
        return found.view(np.uint64) if dtype == "<u8" else found.astype(dtype)
