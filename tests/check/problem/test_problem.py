"""Problems: dtypes that are promoted together, and every argument that is refused."""

from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.strategies import DTYPES
from twom_dist.errors import AccuracyError, ArgumentError, PlanError, TwomError
from twom_dist.plan import Cluster, lay_out
from twom_dist.problem.problem import of_headers

TWO = np.ones((3, 3))
ONE, PAIR = (TWO,), (TWO, TWO)


def lazily(x):
    return da.from_array(x, chunks=1)


# --- dtypes -----------------------------------------------------------------------


@cases(("letter", "dtype"), zip("sdcz", DTYPES, strict=True))
def test_typed_names_promote_what_is_safe(letter, dtype):
    gemm, syrk = getattr(td, f"{letter}gemm"), getattr(td, f"{letter}syrk")
    assert gemm.__name__ == f"{letter}gemm"
    for given in ("bool", "int8", "uint16", "float16", *DTYPES, "int64", "longdouble"):
        A, B = np.ones((2, 3), given), np.ones((3, 2), dtype)
        if np.can_cast(given, dtype, "safe"):
            for left in (A, da.from_array(A)):
                for C in (gemm(left, B), syrk(left)):
                    assert C.dtype == dtype
                    assert (np.asarray(C) == 3).all()
        else:
            for routine, matrices in ((gemm, (A, B)), (syrk, (A,))):
                with raises(ArgumentError, "dtype-unsafe"):
                    routine(*matrices)


@cases("first", [*DTYPES, "float16", "int32", "bool"])
@cases("second", [*DTYPES, "float16", "int64", "uint8"])
def test_inputs_are_promoted_together(first, second):
    A, B = np.ones((2, 2), first), np.ones((2, 2), second)
    expected = np.result_type(A, B)
    if expected.kind in "biu":
        expected = np.dtype("float64")
    expected = np.dtype("float32") if expected == "float16" else expected
    assert td.gemm(A, B).dtype == expected
    assert td.plan(td.gemm, A, B).dtype == expected
    assert td.gemm(A, B, np.ones((2, 2), "c16"), beta=1).dtype == "c16"


@cases("make", [np.asarray, da.from_array])
def test_c_decides_about_the_dtype_only_where_it_is_read(make):
    A, C = make(np.eye(2, dtype="f4")), make(np.eye(2, dtype="c16"))
    for routine, given in ((td.gemm, (A, A)), (td.herk, (A,)), (td.her2k, (A, A))):
        assert routine(*given, C, beta=0).dtype == "f4"
        assert routine(*given, C, beta=1).dtype == "c16"
    assert td.sgemm(A, A, C, beta=0.0).dtype == "f4"
    assert td.cherk(A).dtype == "complex64"
    assert td.zsyr2k(A, A).dtype == "complex128"


@cases("make", [np.asarray, lazily])
@cases("dtype", ["int64", "uint64"])
def test_integers_that_a_double_would_round_are_refused(make, dtype):
    exact, rounded = (np.array([[1, 2**53 + x], [1, 1]], dtype) for x in (0, 1))
    x, one = make(rounded), np.eye(2)
    assert (np.asarray(td.gemm(make(exact), one)) == exact).all()
    for call in (
        lambda: td.gemm(x, one),
        lambda: td.zgemm(one, x),
        lambda: td.herk(x),
        lambda: td.gemm(one, one, x, beta=1),
    ):
        with raises(ArgumentError, "integer-rounded"):
            np.asarray(call())
    # What is not read may be anything.
    assert (np.asarray(td.gemm(one, one, x, beta=0)) == one).all()
    assert (np.asarray(td.gemm(x, one, one, alpha=0, beta=2)) == 2 * one).all()
    least = np.iinfo("int64").min
    for value in (least + 1, -(2**53) - 1):
        with raises(ArgumentError, "integer-rounded"):
            td.gemm([[value]], [[1]])


# --- arguments that are refused -------------------------------------------------------

NAT = np.array([["2020-01-01"]], "M8[D]")
LONG = np.ones((1, 400), complex)
ONES, HUGE = np.ones(3), 10**400
CUPYS = {"__module__": "cupy", "ndim": 2, "shape": (3, 3), "dtype": TWO.dtype}
NO_SCALARS = [1, 2], None, HUGE, HUGE**20, Decimal("1e400"), Decimal("sNaN")
NO_ACCURACIES = ONES, HUGE, Fraction(1, HUGE), Decimal("1e-400"), Decimal("NaN"), "good"
# Whatever way they are given: by their kind of error, (code, arrays, options).
REFUSED = {
    "gemm": {
        PlanError: [
            ("shapes", (TWO, np.ones((2, 3))), {}),
            ("shapes", (np.ones((3, 2)), TWO), {"op_b": "T"}),
            ("not-two-dimensional", (ONES, TWO), {}),
            ("op_a", PAIR, {"op_a": "H"}),
            ("op_b", PAIR, {"op_b": None}),
            ("op_b", PAIR, {"op_b": "n"}),
            ("engine", PAIR, {"engine": "gpu"}),
            ("engine-family", PAIR, {"engine": "cuda"}),
        ],
        ArgumentError: [
            *(("scalar", PAIR, {"alpha": x}) for x in NO_SCALARS),
            ("scalar-complex", PAIR, {"alpha": 1j}),
            ("dtype", (np.array([[1]]), NAT), {}),
            ("dtype", (TWO.astype(object), TWO), {}),
            ("masked", (np.ma.masked_equal(TWO, 2), TWO), {}),
        ],
        AccuracyError: [
            *(("method", PAIR, {"method": x}) for x in ("1m", ONES)),
            *(("num-moduli", PAIR, {"num_moduli": x}) for x in (HUGE, HUGE**20)),
            *(("accuracy", PAIR, {"accuracy": x}) for x in NO_ACCURACIES),
            ("accuracy-out-of-reach", PAIR, {"accuracy": 1e-120}),
            ("accuracy-twice", PAIR, {"accuracy": 1e-3, "num_moduli": 5}),
            ("native-accuracy", PAIR, {"method": "blas", "num_moduli": 5}),
            ("native-accuracy", PAIR, {"method": "blas", "accuracy": ONES}),
            ("too-few-moduli", (LONG, LONG.T), {"num_moduli": 1}),
        ],
    },
    "her2k": {PlanError: [("shapes", (TWO, TWO[:2]), {})]},
    "herk": {
        PlanError: [
            ("op", ONE, {"op": "T"}),
            *(("uplo", ONE, {"uplo": x}) for x in ("L", "x" * 1000)),
        ],
        ArgumentError: [
            ("scalar-not-real", (TWO + 0j,), {"alpha": 1j}),
            ("dtype", (TWO.astype("longdouble"),), {}),
        ],
        AccuracyError: [("num-moduli", ONE, {"num_moduli": 50})],
    },
    "syrk": {
        PlanError: [("op", ONE, {"op": "C"})],
        ArgumentError: [
            ("scalar", ONE, {"alpha": "1"}),
            ("scalar-complex", ONE, {"alpha": 1j}),
        ],
    },
}
ROWS = [
    (routine, error, *row)
    for routine, kinds in REFUSED.items()
    for error, rows in kinds.items()
    for row in rows
]


@cases("way", ["now", "lazily", "planned", "planned lazily"])
@cases(("routine", "error", "code", "arrays", "options"), ROWS)
def test_refused_with_a_reason(way, routine, error, code, arrays, options):
    if way.endswith("lazily"):
        arrays = [da.from_array(x, chunks=-1, asarray=False) for x in arrays]
    call = partial(td.plan, getattr(td, routine))
    call = call if way.startswith("planned") else getattr(td, routine)
    with raises(error, code) as caught:
        call(*arrays, **options)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@cases("make", [np.asarray, lazily])
@cases(
    ("error", "code", "call"),
    [
        (PlanError, "no-c", lambda x: td.gemm(x, x, beta=2)),
        (PlanError, "no-c", lambda x: td.herk(x, beta=1)),
        (PlanError, "shapes", lambda x: td.gemm(x, x, np.eye(2), beta=1)),
        (PlanError, "shapes", lambda x: td.gemm(x, x, np.eye(2), beta=0)),
        (PlanError, "no-beta", lambda x: td.gemm(x, x, x)),
        (PlanError, "no-beta", lambda x: td.zherk(x, x)),
        (PlanError, "no-beta", lambda x: td.syr2k(x, x, x, alpha=2)),
        (PlanError, "shapes", lambda x: td.herk(x, x[:, :2], beta=1)),
        (ArgumentError, "scalar", lambda x: td.gemm(x, x, x, beta="x")),
        (ArgumentError, "scalar", lambda x: td.gemm(x, x, beta=np.ones(3))),
        (ArgumentError, "scalar", lambda x: td.gemm(x, x, x, beta=[[1], [1, 2]])),
        (ArgumentError, "scalar-not-real", lambda x: td.zher2k(x, x, x, beta=1j)),
        (ArgumentError, "no-a", lambda x: td.gemm(None, x)),
        (ArgumentError, "no-b", lambda x: td.gemm(x, None)),
        (ArgumentError, "no-b", lambda x: td.her2k(x, None)),
        (ArgumentError, "families", lambda x: td.gemm(type("ndarray", (), CUPYS)(), x)),
    ],
)
def test_what_only_a_call_can_get_wrong(make, error, code, call):
    with raises(error, code):
        call(make(TWO))


class Unwilling:
    """What raises as NumPy looks at it."""

    def __array__(self, *_, **__):
        raise RuntimeError("not an array\nafter all")


ITSELF = [1, 2]
ITSELF.append(ITSELF)


@cases(
    ("code", "x"),
    [
        ("not-two-dimensional", 1.0),
        ("dtype", [["a"]]),
        ("dtype", np.ones((2, 2), "i2,i2")),
        ("dtype", np.ones((2, 2), "i1,f8,U3")),
        ("not-a-matrix", "a"),
        ("not-a-matrix", [[1, 2], [3]]),
        ("not-a-matrix", ITSELF),
        ("not-a-matrix", Unwilling()),
        ("masked", [np.ma.masked_array([1.0, 2.0], [False, True]), [1, 2]]),
        ("masked", [[1.0, np.ma.masked], [1, 2]]),
        ("masked", da.ma.masked_equal(da.ones((2, 2)), 2)),
        ("not-a-matrix", dask.delayed(np.eye)(2)),
        ("not-a-matrix", dask.delayed([[1]])),
        ("sparse", sparse.csr_matrix(np.eye(2))),
        ("sparse", sparse.coo_array(np.eye(2))),
        ("sparse", da.ones((2, 2)).map_blocks(sparse.csr_array)),
    ],
)
def test_what_is_no_matrix_of_numbers_is_told_apart(code, x):
    for pair in ((x, np.eye(2)), (np.eye(2), x)):
        with raises(TwomError, code) as caught:
            td.gemm(*pair)
        assert "\n" not in str(caught.value)


# --- plans ----------------------------------------------------------------------------

SHAPE, WIDE = (61, 45), (3, 2**70)
SPEC = td.plan(td.gemm, (3, 3), (3, 3)).spec


def plan(routine, **options):
    shapes = [SHAPE] * (1 if routine in ("herk", "syrk") else 2)
    return td.plan(getattr(td, routine), *shapes, **options)


@cases(
    ("error", "code", "call"),
    [
        (ArgumentError, "scalar-not-real", lambda: plan("her2k", beta=1j)),
        (ArgumentError, "scalar-complex", lambda: plan("syrk", alpha=1j, dtype="f8")),
        (PlanError, "not-two-dimensional", lambda: td.plan(td.herk, (3,))),
        (PlanError, "not-two-dimensional", lambda: td.plan(td.herk, (3, -1))),
        (PlanError, "not-two-dimensional", lambda: td.plan(td.gemm, 3, 4)),
        (PlanError, "stack", lambda: td.explain(td.herk, np.ones((2, 3, 4)))),
        (PlanError, "shapes", lambda: td.plan(td.her2k, (3, 4), (4, 3))),
        (PlanError, "chunks", lambda: plan("herk", chunks=(8, 8, 8))),
        (PlanError, "chunks", lambda: plan("herk", chunks=((30, 30), 45))),
        (PlanError, "chunks", lambda: plan("herk", chunks=0)),
        (PlanError, "cluster", lambda: plan("herk", n_workers=0)),
        (PlanError, "cluster", lambda: plan("herk", threads_per_worker=1.5)),
        (PlanError, "cluster", lambda: plan("herk", memory_limit="much")),
        (PlanError, "cluster", lambda: plan("herk", memory_limit=HUGE)),
        (PlanError, "cluster", lambda: plan("herk", n_workers=10**9)),
        (PlanError, "cluster", lambda: plan("herk", n_workers=True)),
        (PlanError, "chunks", lambda: plan("herk", chunks=True)),
        (PlanError, "many-tiles", lambda: td.plan(td.herk, (2**70, 3))),
        (PlanError, "many-tiles", lambda: lay_out(SPEC, (2**70, 3, 3), Cluster())),
        (PlanError, "many-tiles", lambda: td.plan(td.gemm, (3, 2**70), (2**70, 3))),
        (PlanError, "many-tiles", lambda: td.plan(td.gemm, da.ones((3, 3)), WIDE)),
        (ArgumentError, "scalar", lambda: plan("gemm", beta=ONES)),
        (ArgumentError, "unknown-option", lambda: plan("herk", tile=3)),
        (ArgumentError, "unknown-option", lambda: plan("herk", op_a="C")),
        (ArgumentError, "dtype", lambda: plan("herk", dtype="f2")),
        (ArgumentError, "dtype", lambda: plan("herk", dtype="nonsense")),
        (ArgumentError, "dtype-unsafe", lambda: td.plan(td.herk, TWO, dtype="f4")),
        (ArgumentError, "no-b", lambda: td.plan(td.gemm, TWO, None)),
    ],
)
def test_plans_are_refused_with_a_reason(error, code, call):
    with raises(error, code):
        call()


def test_alpha_is_complex_where_the_result_stays_symmetric():
    for routine in ("syrk", "syr2k", "her2k"):
        assert plan(routine, alpha=1j).to_json() == plan(routine).to_json()
    assert np.isfinite(plan("syrk", beta=1j).error_bound)


def test_a_problem_that_is_posed_again_cannot_have_been_changed():
    nans = float("nan"), np.float32("nan"), complex("-nan-0j")
    for alphas in ((1, 1), nans, (complex("nan+2j"), complex("2+nanj"))):
        asked = (td.gemm.ask(TWO + 0j, TWO, alpha=x) for x in alphas)
        first, *others = (of_headers(*x[:3]) for x in asked)
        assert all(x.spec == first.spec for x in others)
    with pytest.raises(FrozenInstanceError):
        first.choice.target = "normwise"


def test_what_was_posed_before_is_not_taken_for_what_only_equals_it():
    given = partial(td.gemm, np.eye(3), np.eye(3))
    assert given(num_moduli=8, equilibrate=True)[0, 0] == 1
    for error, code, options in (
        (AccuracyError, "num-moduli", {"num_moduli": 8.0}),
        (PlanError, "equilibrate", {"num_moduli": 8, "equilibrate": 1}),
        (AccuracyError, "accuracy", {"accuracy": [1e-3]}),
    ):
        with raises(error, code):
            given(**options)
    # A number in an array cannot be looked up, and is posed each time.
    assert given(alpha=np.array(2.0))[0, 0] == 2
    # What there is not is Python's to refuse.
    with pytest.raises(TypeError, match="moduli"):
        given(moduli=3)
