"""DataArrays: one property of all products by names, labels, pairs, and refusals."""

from functools import partial
from math import prod

import dask.array as da
import numpy as np
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from twom_dist.errors import AccuracyError, ArgumentError, PlanError

NAMES = ["gemm", "herk", "syrk", "her2k", "syr2k"]
SIZES = {"f": 2, "run": 3, "a": 3, "p": 2, "beam": 4, "t": 5, "q": 2, "cplx": 2}


@st.composite
def named(draw, dims, integers, seed):
    """Draw a matrix whose dimensions lie in any order, cut anywhere; and as it is."""
    rng = np.random.default_rng(seed)
    shape = [SIZES[x] for x in dims]
    if integers:
        dims, values = [*dims, "cplx"], rng.integers(-128, 128, (*shape, 2), np.int8)
    else:
        values = td.testing.random_matrix(1, prod(shape), seed=seed).reshape(shape)
    found = xr.DataArray(values, dims=dims).transpose(*draw(st.permutations(dims)))
    cut = draw(st.lists(st.sampled_from(dims), unique=True)) if dims else []
    return values, found.chunk({x: (found.sizes[x] + 1) // 2 for x in cut})


def some(*names, least=0):
    return st.lists(st.sampled_from(names), unique=True, min_size=least)


@settings(max_examples=30)
@given(st.data(), st.booleans(), st.sampled_from(NAMES))
def test_products_are_those_of_matrices_as_they_lie(data, integers, name):
    stack, dim = data.draw(some("f", "run")), data.draw(some("t", "q", least=1))
    rows = data.draw(some("a", "p", least=int(name != "gemm")))
    others = data.draw(some("beam")) if name == "gemm" else [f"{x}_2" for x in rows]
    # A vector of each for each label would be refused.
    assume(rows or others or not stack)
    count = 2 if name == "gemm" or name.endswith("2k") else 1
    options, plain = {"dim": dim}, {}
    if name == "gemm":
        options["conj"] = conj = data.draw(st.sampled_from([None, "A", "B"]))
        plain["op_b"] = "C" if conj else "T"
    else:
        options["rows"] = rows
    given, matrices = [], []
    for i in range(count):
        own = others if (name, i) == ("gemm", 1) else rows
        made = data.draw(named([*stack, *own, *dim], integers, i))
        shape = [prod(SIZES[x] for x in y) for y in (own, dim)]
        tail = [2] * integers
        lead = [SIZES[x] for x in stack]
        matrices.append(made[0].reshape(*lead, *shape, *tail))
        given.append(made[1])
    if integers:
        options["pairs"], plain["pairs"] = "cplx", True
    expected = getattr(td.integers if integers else td, name)(*matrices, **plain)
    if options.get("conj") == "A":
        expected = expected.conj()
    found = getattr(td.xarray, name)(*given, **options)
    dims = [*stack, *rows, *others]
    assert {*found.dims} == {*dims}
    lazy = any(x.chunks for x in given)
    assert isinstance(found.data, da.Array if lazy else (np.ndarray, np.generic))
    shape = [SIZES[x.removesuffix("_2")] for x in dims]
    expected = expected.reshape(shape)
    assert same_bits(np.asarray(found.transpose(*dims).values), expected)
    # C is added by the names of its dimensions.
    order = data.draw(st.permutations(dims))
    c = xr.DataArray(expected, dims=dims).transpose(*order)
    more = getattr(td.xarray, name)(*given, C=c, beta=2, **options)
    assert np.allclose(more.transpose(*dims).values, 3 * expected, rtol=1e-12)


STACK = np.stack([td.testing.random_matrix(5, 7, seed=seed) for seed in range(3)])
TIME = np.arange(7) * 10
CHANNELS = {"x": list("abcde"), "gain": ("x", np.arange(5.0))}
# A matrix, and three, in the order of nobody's matrix.
a = xr.DataArray(STACK[0].T, {"time": TIME, **CHANNELS}, ("time", "x"), name="a")
labels = {"time": TIME, "run": [1, 2, 3], **CHANNELS}
stacked = xr.DataArray(STACK.transpose(2, 0, 1), labels, ("time", "run", "x"))
b = xr.DataArray(td.testing.random_matrix(7, 4, seed=9), {"time": TIME}, ("time", "y"))


def test_labels_stay_and_those_of_rows_are_there_twice():
    found = td.xarray.gemm(a, b, dim="time")
    assert (found.dims, found.name) == (("x", "y"), None)
    assert {*found.coords} == {"x", "gain"}
    assert found.indexes["x"].equals(a.indexes["x"])
    found = td.xarray.herk(stacked, dim="time", rows="x")
    assert found.dims == ("run", "x", "x_2")
    assert {*found.coords} == {"run", "x", "x_2", "gain", "gain_2"}
    assert list(found.indexes["x_2"]) == CHANNELS["x"]
    assert list(found.indexes["run"]) == [1, 2, 3]
    levels = xr.Coordinates.from_pandas_multiindex(
        a.stack(z=("x",)).rename(x="letter").indexes["z"], "z"
    )
    found = td.xarray.herk(xr.DataArray(STACK[0], levels, ("z", "time")), dim="time")
    assert found.indexes["z_2"].equals(found.indexes["z"].rename(["letter_2"]))
    noted = a.assign_attrs(units="V")
    for keep, attrs in [(True, {"units": "V"}), (False, {})]:
        with xr.set_options(keep_attrs=keep):
            assert td.xarray.herk(noted, dim="time").attrs == attrs


def test_nothing_is_computed_before_it_is_asked_for():
    loaded = []

    def load(block):
        loaded.append(block.shape)
        return block

    data = da.from_array(a.data, chunks=(4, 2))
    lazy = a.copy(data=data.map_blocks(load, dtype=a.dtype, meta=a.data[:0]))
    found = td.xarray.herk(lazy, dim="time")
    assert td.plan(td.xarray.herk, lazy, dim="time").tiles == (3, 3, 2)
    assert loaded == []
    assert same_bits(found.values, td.herk(STACK[0]))


def test_plans_and_explanations_take_names():
    assert td.plan(td.xarray.gemm, a, b, dim="time").shape == (5, 4, 7)
    expected = td.explain(td.gemm, STACK[0], b.data)
    assert str(td.explain(td.xarray.gemm, a, b, dim="time")) == str(expected)
    expected = td.plan(td.integers.herk, BY_ANTENNA[0], pairs=True)
    channel = pairs.isel(channel=0)
    assert td.plan(td.xarray.herk, channel, **BY_NAME) == expected
    single = td.plan(td.xarray.herk, channel, **BY_NAME, dtype="complex64")
    assert (expected.error_bound, single.error_bound) == (0, 2**-24)
    # Chunks grow only along what is short.
    whole = da.zeros((4, 2, 1000), chunks=(4, 1, 10))
    x = xr.DataArray(whole, dims=("antenna", "pol", "time"))
    plan = td.plan(td.xarray.herk, x, dim=["pol", "time"], rows="antenna")
    assert max(plan.grid.k) <= 20


DIMS = ("channel", "antenna", "time", "pol", "cplx")
INTEGERS = np.random.default_rng(1).integers(-128, 128, (3, 5, 12, 2, 2), dtype=np.int8)
pairs = xr.DataArray(INTEGERS, {"channel": [1.4, 1.5, 1.6]}, DIMS)
BY_NAME = {"dim": ["time", "pol"], "rows": "antenna", "pairs": "cplx"}
BY_ANTENNA = INTEGERS.reshape(3, 5, 24, 2)
CHUNKED = [pairs, pairs.chunk(channel=1, time=6), pairs.chunk(cplx=1, antenna=2)]


@cases("kind", ["complex64", "float64"])
@cases("x", CHUNKED)
def test_pairs_beside_weights_are_complex_numbers(x, kind):
    weights = td.testing.random_matrix(5, x.sizes["antenna"], dtype=kind)
    weights = xr.DataArray(weights, {}, ("beam", "antenna"))
    values = pairs.values @ np.array([1, 1j])
    complex_pairs = pairs.isel(cplx=0, drop=True).copy(data=values.astype("c8"))
    for options in ({}, {"accuracy": 1e-5, "dtype": "complex128"}):
        expected = td.xarray.gemm(weights, complex_pairs, dim="antenna", **options)
        options |= {"dim": "antenna", "pairs": "cplx"}
        found = td.xarray.gemm(weights, x, **options)
        assert found.dims == expected.dims
        assert same_bits(found.values, expected.values)
    assert td.plan(td.xarray.gemm, weights, x, **options).dtype == "complex128"
    with raises(PlanError, "pairs-shape"):
        td.xarray.gemm(weights.real.astype("i1"), x, dim="antenna", pairs="cplx")


@cases("x", CHUNKED)
def test_pairs_are_scaled_and_rounded_once(x):
    found = td.xarray.herk(x, alpha=1 / 3, dtype="complex64", **BY_NAME)
    exact = td.integers.herk(BY_ANTENNA, pairs=True)
    assert same_bits(found.values, (exact * (1 / 3)).astype("complex64"))
    more = td.xarray.herk(x, found.T, beta=2, alpha=0.5, **BY_NAME)
    assert same_bits(more.values, exact / 2 + 2 * found.values)
    sums = td.xarray.herk(x, **BY_NAME)
    whole = td.xarray.herk(x, dtype="int32", **BY_NAME)
    assert (whole.dims, whole.dtype) == ((*sums.dims, "cplx"), "int32")
    xr.testing.assert_equal(whole.isel(cplx=1), sums.imag)
    named = {"dim": "time", "rows": ["antenna", "channel"], "pairs": "cplx"}
    whole, sums = (td.xarray.herk(x, dtype=t, **named) for t in ("int64", None))
    xr.testing.assert_equal(whole.isel(cplx=0), sums.real)


def test_integers_without_parts():
    real = pairs[:, :, 0, 0]
    expected = td.syrk(INTEGERS[:, :, 0, 0].astype(float))
    found = td.xarray.syrk(real, dim="antenna", rows="cplx")
    assert found.dims == ("channel", "cplx", "cplx_2")
    named = {"dim": "cplx", "rows": "antenna"}
    assert same_bits(td.xarray.syrk(real, **named).values, expected)
    found = td.xarray.syrk(pairs[:, :, 0], **named, pairs=False)
    assert same_bits(found.values[:, 0], expected)
    found = td.xarray.syrk(real, **named, dtype="f4")
    assert same_bits(found.values, expected.astype("float32"))


def by_time(function, *given, **options):
    return partial(function, *given, **{"dim": "time", **options})


gemm, herk = partial(by_time, td.xarray.gemm), partial(by_time, td.xarray.herk)
of_pairs = partial(herk, pairs, rows="antenna", pairs="cplx")
of_labels = partial(herk, rows="antenna", pairs="cplx")
BEAMS = stacked.rename(x="z")
OTHER_C = td.xarray.herk(a, dim="time").assign_coords(x_2=range(5))
NAMED = xr.DataArray(STACK, dims=("c", "a", "t"), coords={"a_2": ("c", [4, 5, 6])})
ONE, REAL = pairs[0, ..., 0, :], pairs[0, 0, ..., 0]
SUMS = td.xarray.herk(pairs, **BY_NAME)
UNKNOWN = da.from_array(STACK[0].T, chunks=(4, 2))
UNKNOWN = xr.DataArray(UNKNOWN[:, UNKNOWN[0].real > 0], dims=("time", "x"))
NO_ROWS, NO_PAIRS = ("y", "time", ["x", "x"], []), (True, "time", "antenna", "parts")
REFUSALS = [
    (PlanError, "labels", gemm(a, b.isel(time=slice(None, None, -1)))),
    (PlanError, "labels", gemm(a, b.drop_vars("time").isel(time=slice(3)))),
    (PlanError, "labels", herk(a, OTHER_C, beta=1)),
    (PlanError, "dim", gemm(a, b, dim="tide")),
    (PlanError, "dim", gemm(a, b, dim=["time", "y"])),
    (PlanError, "dim", by_time(td.plan, td.xarray.gemm, a, b, dim="x")),
    (PlanError, "dims", gemm(a, a)),
    (PlanError, "stack", by_time(td.explain, td.xarray.gemm, stacked, BEAMS)),
    (PlanError, "dims", gemm(b, stacked[:, :, 0], C=b, beta=1)),
    (PlanError, "conj", gemm(a, b, conj="both")),
    (PlanError, "rows", herk(stacked)),
    *((PlanError, "rows", herk(stacked, rows=x)) for x in NO_ROWS),
    (PlanError, "dim", herk(stacked, dim=[], rows="x")),
    (PlanError, "dim", herk(stacked, dim=..., rows="x")),
    (PlanError, "dims", herk(a[:, 0])),
    (PlanError, "dims", by_time(td.xarray.her2k, a, b)),
    (PlanError, "dims", herk(a, b, beta=1)),
    (PlanError, "dims", herk(a.rename(time="x_2"), dim="x_2")),
    (PlanError, "dims", herk(NAMED, dim="t", rows="a")),
    *((ArgumentError, "labelled", partial(x, a, b)) for x in (td.gemm, td.matmul)),
    (ArgumentError, "labelled", partial(td.gemm, a.data, b.data, a, beta=1)),
    (ArgumentError, "labelled", partial(td.herk, a.to_dataset())),
    (ArgumentError, "labelled", partial(td.plan, td.herk, a)),
    (ArgumentError, "labelled", partial(td.explain, td.gemm, a, b)),
    (ArgumentError, "labelled", partial(td.twofold.gemm, a, b)),
    (ArgumentError, "labelled", partial(td.integers.matmul, a, b)),
    (ArgumentError, "not-labelled", gemm(a, b.data)),
    (ArgumentError, "not-labelled", gemm(a.data, b.data)),
    (ArgumentError, "not-labelled", herk(a.to_dataset())),
    (ArgumentError, "unknown-option", herk(a, op="C")),
    (ArgumentError, "no-b", gemm(a, None)),
    (PlanError, "unknown-chunks", gemm(UNKNOWN, b.drop_vars("time"))),
    (PlanError, "unknown-chunks", herk(UNKNOWN)),
    # Pairs that are none.
    (ArgumentError, "pairs", of_pairs(pairs=None)),
    *((PlanError, "pairs-shape", of_pairs(pairs=x)) for x in NO_PAIRS),
    (PlanError, "pairs-shape", of_pairs(dim=["time", "cplx"])),
    *((PlanError, "rows", of_pairs(rows=x)) for x in (None, "cplx_2")),
    (AccuracyError, "exact", of_pairs(accuracy=1e-3)),
    (AccuracyError, "exact", of_pairs(num_moduli=4)),
    (AccuracyError, "method", of_pairs(method="auto")),
    (ArgumentError, "exact-dtype", of_pairs(dtype="float32")),
    (ArgumentError, "exact-dtype", of_pairs(dtype="int32", alpha=2)),
    (ArgumentError, "dtype", herk(REAL, dtype="int32")),
    (ArgumentError, "pairs-dtype", herk(ONE * 1.0, pairs="cplx")),
    (PlanError, "pairs-shape", gemm(ONE, REAL, pairs="cplx")),
    *(
        (PlanError, "pairs-shape", of_labels(pairs.assign_coords(cplx=[*labels])))
        for labels in ("xy", "RL", "ir")
    ),
    # Doubles would round it.
    (PlanError, "pairs-shape", gemm(ONE.astype("i8"), REAL * 1.0, pairs="cplx")),
    (
        ArgumentError,
        "dtype-unsafe",
        herk(ONE, SUMS[0], beta=1, dtype="c8", pairs="cplx"),
    ),
]


def test_labels_of_parts_are_re_and_im_or_no_text():
    expected = td.xarray.herk(pairs, **BY_NAME)
    for labels in (["re", "im"], ["Real", "Imag"], ["I", "Q"], [0, 1], [True, False]):
        labelled = pairs.assign_coords(cplx=labels)
        assert same_bits(td.xarray.herk(labelled, **BY_NAME).values, expected.values)


@cases(("kind", "code", "call"), REFUSALS)
def test_what_does_not_fit_is_refused(kind, code, call):
    with raises(kind, code):
        call()
