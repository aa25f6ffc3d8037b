"""Exact products of integers of any size, as int64 or Python integers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
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
from . import limbs

STAGE = "twom-integers"  # the prefix that dashboards group the tasks by


@dataclass(frozen=True)
class _Integers:
    """A matrix of integers, or a limb of one: at most `largest` in magnitude."""

    x: Any
    largest: int


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
        NumPy, CuPy or dask array of integers or booleans, up to int64 and uint64; NumPy
        array of Python integers of any size; or floating-point numbers with integer
        values (complex for Gaussian integers). Leading axes are batch axes.
    B : (..., k, n) array, or (..., k, n, 2) with pairs
        Like A.
    pairs : bool, optional
        True if the last axes hold real and imaginary parts.
    dtype : dtype, optional
        Dtype of the result: int64 (default), another integer dtype such as int32 or
        uint64, or object for Python integers of any size.
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
        For an entry of the product that does not fit the dtype, and a floating-point
        entry that is not an integer of at most 2^53 (2^24 in single precision); for
        dask arrays when the chunk is computed.

    See Also
    --------
    gemm : Exact products up to 2^53, faster, as doubles; also of files.

    Notes
    -----
    The number of moduli grows with the entries in memory, and with the dtypes of dask
    arrays. Results beyond 2^53 are sums of two doubles before they become integers.
    Entries whose products may exceed 2^94 are cut into limbs of 32 bits, which takes
    four products, or three if one side is small. Python integers are multiplied by
    Python itself if they are few, or have 2048 bits.

    Examples
    --------
    >>> import numpy as np, twom_dist as td
    >>> A = np.array([[2**40 + 1, 3], [-5, 2**40]])
    >>> td.integers.matmul(A, np.array([[7, 0], [1, 2**22]]))
    array([[      7696581394442,            12582912],
           [      1099511627741, 4611686018427387904]])
    >>> td.integers.matmul(A, A, dtype=object)[0, 0] == (2**40 + 1) ** 2 - 15
    True
    """
    kind = _as_integer_dtype(np.int64 if dtype is None else dtype)
    (A, B), give_back = adopt(A=A, B=B)
    family = common_family(A=A, B=B)
    if kind.hasobject and family == "cupy":
        text = "CuPy has no arrays of Python integers"
        raise ArgumentError(text, "Leave dtype out", "gaussian-dtype")
    pairs, a, b = _take(as_flag("pairs", pairs), as_matrix(A, "A"), as_matrix(B, "B"))
    terms = Terms(ROUTINES["gemm"], Choice.exact(pairs=pairs, engine=engine))
    posed = _pose(terms, a.x, b.x, family)
    parts, k = 1 + pairs, posed.shape[2]
    bound = parts * k * a.largest * b.largest
    whole = max(a.largest, b.largest) <= limbs.LARGEST_WHOLE
    whole = whole and bound <= limbs.LARGEST_SUM
    if not whole and _is_quick_for_python(a, b, posed):
        x, y = a.x.astype(object), b.x.astype(object)
        if not pairs:
            found = x @ y
        else:
            (p, q), (r, s) = ((z[..., 0], z[..., 1]) for z in (x, y))
            found = np.stack((p @ r - q @ s, p @ s + q @ r), axis=-1)
        return found if kind.hasobject else limbs.narrow(found, kind)
    left, right = ([x] if whole else _split(x) for x in (a, b))
    made = [
        (i + j, _multiply(x, y, posed, pairs))
        for (i, x), (j, y) in product(enumerate(left), enumerate(right))
    ]
    places = tuple((place, len(components)) for place, components in made)
    components = [x for _, own in made for x in own]
    finish, first = partial(_finish, places, np.dtype(kind).str, pairs), components[0]
    if not is_dask(first):
        found = finish(*components)
        return found if kind.hasobject else give_back(found)
    more: dict[str, Any] = {}
    if pairs:
        more = {"new_axis": first.ndim, "chunks": (*first.chunks, (2,))}
    more |= {"dtype": kind, "meta": empty_block(family_of(first._meta), kind)}
    return dask_array().map_blocks(finish, *components, token=STAGE, **more)


def _take(pairs: bool, A: Any, B: Any) -> tuple[bool, _Integers, _Integers]:
    """Return matrices of integers, as pairs if they are or one is complex."""
    given = A, B
    if pairs and any(is_floating(x.dtype) for x in given):
        text = "pairs=True is for integers, but A or B is in floating point"
        raise ArgumentError(text, "Convert it, or leave pairs out", "pairs-dtype")
    a, b = (_as_integers(x, name) for x, name in zip(given, "AB", strict=True))
    if "c" not in [x.dtype.kind for x in given]:
        return pairs, a, b
    a, b = (
        y if x.dtype.kind == "c" else replace(y, x=_with_imaginary(y.x))
        for x, y in zip(given, (a, b), strict=True)
    )
    return True, a, b


def _as_integers(x: Any, name: str) -> _Integers:
    if is_floating(x.dtype):
        limit = largest_whole(x.dtype)
        if is_dask(x):
            return _Integers(as_integers(check_lazily(x, name, limit), "int64"), limit)
        largest = find_largest(x, name, limit)
        return _Integers(as_integers(x, "int64"), largest)
    if not is_dask(x) and x.dtype.hasobject:
        x = _as_fixed(x)
    kinds = "biu" if is_dask(x) else "biuO"
    if x.dtype.kind not in kinds:
        problem = f"{name} has dtype {x.dtype}, which is not one of integers"
        raise ArgumentError(problem, "Convert it with astype", "gaussian-dtype")
    if is_dask(x) or x.dtype.kind == "b":
        return _Integers(x, largest_magnitude(x.dtype))
    if x.size == 0:
        return _Integers(x.astype(np.int8), 0)
    return _Integers(x, max(int(x.max()), -int(x.min())))


def _with_imaginary(x: Any) -> Any:
    """Return integers as pairs whose imaginary parts are zeros."""
    xp = dask_array() if is_dask(x) else namespace(x)
    return xp.stack((x, xp.zeros_like(x)), axis=-1)


def _as_integer_dtype(dtype: Any) -> np.dtype[Any]:
    """Return a dtype of integers, or of Python's."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError):
        found = np.dtype(bool)
    if found.kind not in "iuO":
        problem = f"dtype={shown(dtype)} is not one of integers"
        remedy = "Use one such as int64 or int32, or object"
        raise ArgumentError(problem, remedy, "dtype")
    return found.newbyteorder("=")


def _as_fixed(x: Any) -> Any:
    """Return Python integers as integers of 64 bits where they fit; others as given."""
    if not all(isinstance(t, int | np.integer) for t in x.flat):
        problem = "a matrix of dtype object holds others than integers"
        raise ArgumentError(problem, "Convert them with int", "gaussian-dtype")
    least, most = (int(f(x)) if x.size else 0 for f in (np.min, np.max))
    for dtype in (np.int64, np.uint64):
        info = np.iinfo(dtype)
        if info.min <= least and most <= info.max:
            return x.astype(dtype)
    return np.frompyfunc(int, 1, 1)(x)


def _pose(terms: Terms, a: Any, b: Any, family: Family) -> Problem:
    """Pose the product of matrices of these shapes, whose moduli are chosen later."""
    pairs = terms.choice.pairs

    def outline(x: Any, name: str) -> Header:
        if pairs:
            check_parts(x, name)
        return Header(x.shape[:-1] if pairs else x.shape, np.dtype(np.int8))

    return of_headers(Call(terms, outline(a, "A"), outline(b, "B")), family)


def _split(x: _Integers) -> list[_Integers]:
    count = limbs.count_limbs(x.largest)
    if count == 1:
        return [x]
    made = []
    for index, largest in enumerate(limbs.largest_limbs(x.largest, count)):
        if is_dask(x.x):
            dtype = limbs.limb_dtype(x.x.dtype, index, count)
            meta = empty_block(family_of(x.x._meta), dtype)
            given = {"dtype": dtype, "meta": meta, "token": STAGE}
            limb = x.x.map_blocks(limbs.take_limb, index, count, **given)
        else:
            limb = limbs.take_limb(x.x, index, count)
        made.append(_Integers(limb, largest))
    return made


def _is_quick_for_python(x: _Integers, y: _Integers, posed: Problem) -> bool:
    """Tell whether Python multiplies entries of any size sooner than limbs of them.

    Of n limbs each it takes 0.1 us and 1.6 ns n^2, and less for n >= 64, where it
    splits them itself; each of n^2 products of limbs takes 0.3 ms and 0.6 ns for each m
    n k (16 to 128 a side, two cores of an EPYC with VNNI).
    """
    if not (x.x.dtype.hasobject or y.x.dtype.hasobject):
        return False
    count = prod(1 + z.largest.bit_length() // limbs.BITS for z in (x, y))
    return count >= 64**2 or prod(posed.shape) * (100 + count) < 300_000 * count


def _multiply(x: _Integers, y: _Integers, posed: Problem, pairs: bool) -> list[Any]:
    bound = (1 + pairs) * posed.shape[2] * x.largest * y.largest
    if bound > limbs.LARGEST_SUM:
        raise PlanError(
            f"sums of k={posed.shape[2]} products of 64 bits may exceed 2^94",
            "Cut the matrices along k, and add up the products",
            "integer-range",
        )
    engine = posed.spec.engine
    system = find_samples(pairs, bound, x.x.dtype, y.x.dtype)
    if system is None:
        system = shortest_exact("2m", pairs, bound, x.largest, y.largest)
    assert system is not None  # of 95 bits
    kinds = [pair_dtype(t.x.dtype) if pairs else t.x.dtype for t in (x, y)]
    largest = max(x.largest, y.largest)
    tiles = describe_tiles(kinds[0], kinds[1], largest, engine, system)
    a, b = (
        as_pairs(limb.x, name, kind) if pairs else as_matrix(limb.x, name)
        for limb, name, kind in zip(
            (x, y), "AB", tiles["stored"] or (None,) * 2, strict=True
        )
    )
    spec = replace(
        posed.spec,
        method=system.method,
        moduli=system.choice,
        components=1 if bound <= LARGEST_RESULT else 2,
        **tiles,
    )
    found = compute(replace(posed, a=a, b=b, spec=spec))
    return list(found) if spec.components == 2 else [found]


def _finish(
    places: Sequence[tuple[int, int]], dtype: str, pairs: bool, *components: Any
) -> Any:
    with portable_errors():
        if pairs:
            components = tuple(x.view("f8").reshape(*x.shape, 2) for x in components)
        if len(components) == 1:
            found = components[0].astype(np.int64)
            whole = np.dtype(dtype).hasobject
            return found.astype(object) if whole else limbs.narrow(found, dtype)
        return limbs.combine_products(components, places, dtype)
