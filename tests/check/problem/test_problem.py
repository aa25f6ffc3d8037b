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
from twom_dist.errors import AccuracyError, ArgumentError, PlanError
from twom_dist.problem.problem import of_headers

TWO = np.ones((3, 3))
ONE, PAIR = (TWO,), (TWO, TWO)


def lazily(x):
    return da.from_array(x, chunks=1)


@cases(("letter", "dtype"), zip("sdcz", DTYPES, strict=True))
def test_typed_names_promote_what_is_safe(letter, dtype):
    gemm, syrk = getattr(td, f"{letter}gemm"), getattr(td, f"{letter}syrk")
    for given in ("bool", "int8", "uint16", "float16", *DTYPES, "int64", "longdouble"):
        A, B = np.ones((2, 3), given), np.ones((3, 2), dtype)
        for call in (partial(gemm, A, B), partial(syrk, A), partial(syrk, lazily(A))):
            if np.can_cast(given, dtype, "safe"):
                C = call()
                assert C.dtype == dtype
                assert (np.asarray(C) == 3).all()
            else:
                with raises(ArgumentError, "dtype-unsafe"):
                    call()


@cases("make", [np.asarray, da.from_array])
@cases("first", [*DTYPES, "float16", "int32", "bool"])
@cases("second", [*DTYPES, "float16", "int64", "uint8"])
def test_inputs_are_promoted_together_and_with_c_where_it_is_read(first, second, make):
    A, B, C = (make(np.ones((2, 2), x)) for x in (first, second, "c16"))
    expected = np.result_type(A.dtype, B.dtype)
    if expected.kind in "biu":
        expected = np.dtype("float64")
    expected = np.dtype("float32") if expected == "float16" else expected
    assert td.plan(td.gemm, A, B).dtype == expected
    for routine in (td.gemm, td.her2k):
        assert routine(A, B, C, beta=0).dtype == expected
        assert routine(A, B, C, beta=1).dtype == "c16"


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
    for value in (np.iinfo("int64").min + 1, -(2**53) - 1):
        with raises(ArgumentError, "integer-rounded"):
            td.gemm([[value]], [[1]])


NAT = np.array([["2020-01-01"]], "M8[D]")
WIDE = np.ones((1, 400), complex), np.ones((400, 1), complex)
FINEST = {"accuracy": 1e-60}
ONES, HUGE = np.ones(3), 10**400
CUPYS = {
    "__module__": "cupy",
    "ndim": 2,
    "shape": (3, 3),
    "dtype": TWO.dtype,
    "strides": (),
}
NO_SCALARS = [1, 2], None, HUGE, HUGE**20, Decimal("1e400"), Decimal("sNaN")
NO_ACCURACIES = ONES, HUGE, Fraction(1, HUGE), Decimal("1e-400"), Decimal("NaN"), "good"
NO_ACCURACIES += "", 0, 0.51, 1, -1e-3, np.inf, np.nan
NO_COUNTS = HUGE, HUGE**20, True, 0, 2.5
# Whatever way they are given: by their kind of error, (code, arrays, options).
REFUSED = {
    "gemm": {
        PlanError: [
            ("shapes", (TWO, np.ones((2, 3))), {}),
            ("shapes", (np.ones((3, 2)), TWO), {"op_b": "T"}),
            ("not-two-dimensional", (ONES, TWO), {}),
            *(("op_b", PAIR, {"op_b": x}) for x in ("H", "n", None)),
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
            *(("num-moduli", PAIR, {"num_moduli": x}) for x in NO_COUNTS),
            ("num-moduli", WIDE, {"num_moduli": 24}),
            ("accuracy-out-of-reach", WIDE, FINEST),
            *(("accuracy", PAIR, {"accuracy": x}) for x in NO_ACCURACIES),
            ("accuracy-out-of-reach", PAIR, {"accuracy": 1e-120}),
            ("accuracy-twice", PAIR, {"accuracy": 1e-3, "num_moduli": 5}),
            ("native-accuracy", PAIR, {"method": "blas", "num_moduli": 5}),
            ("native-accuracy", PAIR, {"method": "blas", "accuracy": ONES}),
            ("too-few-moduli", WIDE, {"num_moduli": 1}),
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
        ArgumentError: [("scalar-complex", ONE, {"alpha": 1j})],
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


def no_matrix(code, x, error=ArgumentError):
    return error, code, lambda _: td.gemm(np.eye(2), x)


def plan(code, *shapes, error=PlanError, routine=td.herk, **options):
    return error, code, lambda _: td.plan(routine, *shapes or [(61, 45)], **options)


MASKED = [np.ma.masked_array([1.0, 2.0], [False, True]), [1, 2]]
LONG = 3, 2**70


@cases("make", [np.asarray, lazily])
@cases(
    ("error", "code", "call"),
    [
        (PlanError, "no-c", lambda x: td.gemm(x, x, beta=2)),
        (PlanError, "no-c", lambda x: td.herk(x, beta=1)),
        (PlanError, "shapes", lambda x: td.gemm(x, x, np.eye(2), beta=1)),
        (PlanError, "shapes", lambda x: td.gemm(x, x, np.eye(2), beta=0)),
        (PlanError, "shapes", lambda x: td.herk(x, x[:, :2], beta=1)),
        (PlanError, "no-beta", lambda x: td.gemm(x, x, x)),
        (PlanError, "no-beta", lambda x: td.plan(td.zherk, x, x)),
        (PlanError, "no-beta", lambda x: td.syr2k(x, x, x, alpha=2)),
        (ArgumentError, "scalar", lambda x: td.gemm(x, x, x, beta="x")),
        (ArgumentError, "scalar", lambda x: td.gemm(x, x, beta=np.ones(3))),
        (ArgumentError, "scalar", lambda x: td.gemm(x, x, x, beta=[[1], [1, 2]])),
        (ArgumentError, "scalar-not-real", lambda x: td.zher2k(x, x, x, beta=1j)),
        (ArgumentError, "no-a", lambda x: td.gemm(None, x)),
        (ArgumentError, "no-b", lambda x: td.gemm(x, None)),
        (ArgumentError, "no-b", lambda x: td.plan(td.her2k, x, None)),
        (ArgumentError, "families", lambda x: td.gemm(type("ndarray", (), CUPYS)(), x)),
        no_matrix("not-two-dimensional", 1.0, PlanError),
        no_matrix("dtype", [["a"]]),
        no_matrix("dtype", np.ones((2, 2), "i2,i2")),
        no_matrix("not-a-matrix", "a"),
        no_matrix("not-a-matrix", [[1, 2], [3]]),
        no_matrix("not-a-matrix", dask.delayed(np.eye)(2)),
        no_matrix("masked", MASKED),
        no_matrix("masked", [[1.0, np.ma.masked], [1, 2]]),
        no_matrix("masked", da.ma.masked_equal(da.ones((2, 2)), 2)),
        no_matrix("sparse", sparse.csr_matrix(np.eye(2))),
        no_matrix("sparse", sparse.coo_array(np.eye(2))),
        no_matrix("sparse", da.ones((2, 2)).map_blocks(sparse.csr_array)),
        plan("not-two-dimensional", (3,)),
        plan("not-two-dimensional", (3, -1)),
        plan("not-two-dimensional", 3, 4, routine=td.gemm),
        (PlanError, "stack", lambda _: td.explain(td.herk, np.ones((2, 3, 4)))),
        plan("shapes", (3, 4), (4, 3), routine=td.her2k),
        *(plan("chunks", chunks=x) for x in ((8, 8, 8), ((30, 30), 45), 0, True)),
        *(plan("cluster", n_workers=x) for x in (0, 10**9, True)),
        *(plan("cluster", memory_limit=x) for x in (0, HUGE)),
        plan("memory-limit", memory_limit="much"),
        plan("cluster", threads_per_worker=1.5),
        plan("many-tiles", LONG[::-1]),
        plan("many-tiles", LONG, LONG[::-1], routine=td.gemm),
        plan("many-tiles", da.ones((3, 3)), LONG, routine=td.gemm),
        plan("unknown-option", op_a="C", error=ArgumentError),
        *(plan("dtype", dtype=x, error=ArgumentError) for x in ("f2", "nonsense")),
        plan("dtype-unsafe", TWO, dtype="f4", error=ArgumentError),
    ],
)
def test_what_only_a_call_or_only_a_plan_can_get_wrong(make, error, code, call):
    with raises(error, code) as caught:
        call(make(TWO))
    assert "\n" not in str(caught.value)


def test_alpha_is_complex_where_the_result_stays_symmetric():
    for routine in (td.syrk, td.syr2k, td.her2k):
        make = partial(td.plan, routine, *[(6, 5)] * (1 if routine is td.syrk else 2))
        assert make(alpha=1j).to_json() == make().to_json()
    assert np.isfinite(td.plan(td.syrk, (6, 5), beta=1j).error_bound)


def test_a_problem_that_is_posed_again_cannot_have_been_changed():
    nans = float("nan"), np.float32("nan"), complex("-nan-0j")
    for alphas in ((1, 1), nans, (complex("nan+2j"), complex("2+nanj"))):
        asked = (td.gemm.ask(TWO + 0j, TWO, alpha=x) for x in alphas)
        first, *others = (of_headers(x) for x in asked)
        # As caches compare: a NaN is the same if it is one object.
        assert all((x.spec.alpha,) == (first.spec.alpha,) for x in others)
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
