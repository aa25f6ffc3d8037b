"""Roles of dimensions: rows by name, several at once, and pairs of integers."""

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import AccuracyError, ArgumentError, PlanError, TwomError

DIMS = ("channel", "antenna", "time", "pol", "cplx")
LABELS = {
    "channel": [1.4, 1.5, 1.6],
    "antenna": list("abcde"),
    "pol": ["x", "y"],
    "feed": (("antenna", "pol"), np.arange(10).reshape(5, 2)),
}
INTEGERS = np.random.default_rng(1).integers(-128, 128, (3, 5, 12, 2, 2), dtype=np.int8)
pairs = xr.DataArray(INTEGERS, LABELS, DIMS)
complex_ = xr.DataArray(
    td.testing.random_matrix(3 * 5, 24).reshape(3, 5, 12, 2), LABELS, DIMS[:4]
)
# Rows of antennas, and of antennas with each polarisation.
BY_NAME = {"dim": ["time", "pol"], "rows": "antenna", "pairs": "cplx"}
BY_ANTENNA = INTEGERS.reshape(3, 5, 24, 2)
BY_FEED = INTEGERS.transpose(0, 1, 3, 2, 4).reshape(3, 10, 12, 2)


def in_orders(x):
    """Give the same dimensions in other orders."""
    return [x, x.transpose(*reversed(x.dims)), x.transpose(*x.dims[2:], *x.dims[:2])]


def in_chunks(x):
    """Cut the same array in several ways, that of parts as well."""
    yield x
    for cut in ("channel", "time"), ("antenna", "pol"), ("cplx", "antenna"):
        yield x.chunk({y: x.sizes[y] // 2 for y in cut if y in x.dims})


@cases("x", [y for x in in_orders(pairs) for y in in_chunks(x)])
def test_several_dimensions_are_contracted_at_once(x):
    found = td.xarray.herk(x, dim=["pol", "time"], rows="antenna", pairs="cplx")
    assert found.dims == ("channel", "antenna", "antenna_2")
    assert {*found.coords} == {"channel", "antenna", "antenna_2"}
    assert isinstance(found.data, type(x.data))
    assert same_bits(found.values, td.integers.herk(BY_ANTENNA, pairs=True))


@cases("x", [y for x in in_orders(pairs) for y in in_chunks(x)])
def test_rows_of_several_dimensions(x):
    found = td.xarray.herk(x, dim="time", rows=["antenna", "pol"], pairs="cplx")
    assert found.dims == ("channel", "antenna", "pol", "antenna_2", "pol_2")
    assert {*found.coords} == {*found.dims, "feed", "feed_2"}
    assert {*found.feed_2.dims} == {"antenna_2", "pol_2"}
    expected = td.integers.herk(BY_FEED, pairs=True)
    assert same_bits(found.values, expected.reshape(3, 5, 2, 5, 2))


@cases("x", [y for x in in_orders(complex_[0]) for y in in_chunks(x)])
def test_the_order_of_what_is_contracted_changes_no_bit(x):
    expected = td.herk(complex_.data[0].reshape(5, 24))
    assert same_bits(td.xarray.herk(x, dim={"time", "pol"}).values, expected)
    right = x.rename(antenna="beam")
    found = td.xarray.gemm(x, right, dim=("time", "pol"))
    plain = complex_.data[0].reshape(5, 24)
    assert same_bits(found.values, td.gemm(plain, plain, op_b="T"))


def test_rows_and_columns_of_a_product_are_what_one_matrix_has():
    weights = xr.DataArray(td.testing.random_matrix(12, 4), dims=("time", "beam"))
    one = complex_.sel(pol="x")
    found = td.xarray.gemm(weights, one, dim="time")
    assert found.dims == ("beam", "channel", "antenna")
    flat = one.data.reshape(15, 12)
    expected = td.gemm(weights.data, flat, op_a="T", op_b="T").reshape(4, 3, 5)
    assert same_bits(found.values, expected)
    c = xr.zeros_like(found).transpose("antenna", "beam", "channel")
    again = td.xarray.gemm(weights, one.chunk(antenna=2), c, beta=1, dim="time")
    assert same_bits(again.values, expected)


@cases("routine", ["her2k", "syr2k"])
def test_updates_of_two_matrices_of_pairs(routine):
    named, plain = getattr(td.xarray, routine), getattr(td.integers, routine)
    other = pairs[::-1].T.assign_coords(channel=pairs.channel)
    found = named(pairs, other, **BY_NAME)
    expected = plain(BY_ANTENNA, BY_ANTENNA[::-1], pairs=True)
    assert same_bits(found.values, expected)


@cases("x", [*in_chunks(pairs)])
@cases("op", "TC")
def test_a_product_of_pairs_of_which_one_may_be_conjugated(x, op):
    right = pairs.rename(antenna="beam").isel(beam=slice(3))
    options = {"dim": ["time", "pol"], "pairs": "cplx"}
    expected = td.integers.gemm(BY_ANTENNA, BY_ANTENNA[:, :3], op_b=op, pairs=True)
    ways = ({"conj": "B"}, {"conj": "A"}) if op == "C" else ({}, {})
    found = td.xarray.gemm(x, right, **options, **ways[0])
    assert found.dims == ("channel", "antenna", "beam")
    assert same_bits(found.values, expected)
    turned = td.xarray.gemm(right, x, **options, **ways[1])
    assert same_bits(turned.transpose(*found.dims).values, expected)


def test_one_complex_matrix_is_conjugated():
    x = xr.DataArray(td.testing.random_matrix(5, 6), dims=("i", "k"))
    y = x[::-1].rename(i="j")
    found = td.xarray.gemm(x, y, dim="k", conj="A")
    assert same_bits(found, td.xarray.gemm(x.conj(), y, dim="k"))
    with raises(PlanError, "conj"):
        td.xarray.gemm(x, y, dim="k", conj="both")


@cases("kind", ["complex64", "float64"])
@cases("x", [*in_chunks(pairs)])
def test_pairs_beside_weights_are_complex_numbers(x, kind):
    weights = td.testing.random_matrix(5, x.sizes["antenna"], dtype=kind)
    weights = xr.DataArray(weights, {}, ("beam", "antenna"))
    values = pairs.transpose(..., "cplx").values @ np.array([1, 1j])
    complex_pairs = pairs.isel(cplx=0, drop=True).copy(data=values.astype("c8"))
    for options in ({}, {"accuracy": 1e-5, "dtype": "complex128"}):
        expected = td.xarray.gemm(weights, complex_pairs, dim="antenna", **options)
        options |= {"dim": "antenna", "pairs": "cplx"}
        found = td.xarray.gemm(weights, x, **options)
        assert found.dims == expected.dims
        assert same_bits(found.values, expected.values)
    turned = td.xarray.gemm(x, weights, **options)
    assert turned.dims[-1] == "beam"
    assert (td.plan(td.xarray.gemm, weights, x, **options)).dtype == "complex128"
    with raises(PlanError, "pairs-shape"):
        td.xarray.gemm(weights.real.astype("i1"), x, dim="antenna", pairs="cplx")


@cases("x", [*in_chunks(pairs)])
def test_pairs_are_scaled_and_rounded_once(x):
    options = BY_NAME
    found = td.xarray.herk(x, alpha=1 / 3, dtype="complex64", **options)
    exact = td.integers.herk(BY_ANTENNA, pairs=True)
    assert same_bits(found.values, (exact * (1 / 3)).astype("complex64"))
    more = td.xarray.herk(x, found.T, beta=2, alpha=0.5, **options)
    assert same_bits(more.values, exact / 2 + 2 * found.values)


def test_integers_without_parts():
    expected = td.syrk(INTEGERS[:, :, 0, 0].astype(float))
    found = td.xarray.syrk(pairs[:, :, 0, 0], dim="antenna", rows="cplx")
    assert found.dims == ("channel", "cplx", "cplx_2")
    found = td.xarray.syrk(pairs[:, :, 0, 0], dim="cplx", rows="antenna")
    assert same_bits(found.values, expected)
    found = td.xarray.syrk(pairs[:, :, 0], dim="cplx", rows="antenna", pairs=False)
    assert same_bits(found.values[:, 0], expected)
    found = td.xarray.syrk(pairs[:, :, 0, 0], dim="cplx", rows="antenna", dtype="f4")
    assert same_bits(found.values, expected.astype("float32"))


def test_plans_and_explanations_of_pairs():
    options = BY_NAME
    expected = td.plan(td.integers.herk, BY_ANTENNA, pairs=True)
    assert td.plan(td.xarray.herk, pairs, **options) == expected
    single = td.plan(td.xarray.herk, pairs, **options, dtype="complex64")
    assert (expected.error_bound, single.error_bound) == (0, 2**-24)
    assert "rounded" in str(single)
    assert "rounded" not in str(expected)
    one = pairs.isel(channel=0).chunk(antenna=2, pol=1)
    found = td.plan(td.xarray.herk, one, dtype="complex64", **options)
    assert (found.dtype, found.tiles) == ("complex64", (3, 3, 2))
    expected = td.explain(td.integers.herk, BY_ANTENNA[0], pairs=True)
    assert str(td.explain(td.xarray.herk, one, **options)) == str(expected)
    c = td.xarray.herk(one, **options)
    found = td.explain(td.xarray.herk, one, c, beta=1, **options)
    assert str(found) == str(expected)
    with raises(PlanError, "stack"):
        td.explain(td.xarray.herk, pairs, **options)


def test_blocks_of_map_blocks_have_a_lazy_result_as_template():
    lazy = pairs.drop_vars("feed").chunk(channel=1, time=4)
    blocks = lazy.coarsen(time=4).construct(time=("block", "time"))

    def correlate(x):
        return td.xarray.herk(x, dim=["time", "pol"], rows="antenna", pairs="cplx")

    expected = correlate(blocks)
    assert expected.dims == ("channel", "block", "antenna", "antenna_2")
    found = xr.map_blocks(correlate, blocks, template=expected)
    xr.testing.assert_identical(found.compute(), expected.compute())


ONE = pairs[0, ..., 0, :]
COMPLEX_C = xr.DataArray(np.ones((5, 5), complex), dims=("antenna", "antenna_2"))
REFUSALS = [
    # Errors list what may be named.
    (ArgumentError, "pairs", {"pairs": None}, "pairs='pol' or pairs='cplx'"),
    (ArgumentError, "pairs", {"pairs": True}, ""),
    (PlanError, "pairs-shape", {"pairs": "time"}, ""),
    (PlanError, "pairs-shape", {"pairs": "antenna"}, "pairs='cplx'"),
    (PlanError, "pairs-shape", {"pairs": "channel"}, ""),
    (PlanError, "pairs-shape", {"pairs": "parts"}, ""),
    (PlanError, "pairs-shape", {"pairs": "complex"}, "pairs='cplx'"),
    (PlanError, "pairs-shape", {"dim": ["time", "cplx"]}, "Leave 'cplx' out of dim"),
    (PlanError, "rows", {"rows": None}, "'channel' or rows='antenna' or rows='pol'"),
    (PlanError, "rows", {"rows": "cplx_2"}, ""),
    (AccuracyError, "exact", {"accuracy": 1e-3}, ""),
    (AccuracyError, "exact", {"num_moduli": 4}, ""),
    (AccuracyError, "method", {"method": "auto"}, ""),
    (ArgumentError, "exact-dtype", {"dtype": "float32"}, ""),
    (ArgumentError, "dtype", {"dtype": "int32"}, ""),
    (ArgumentError, "unknown-option", {"op": "C"}, ""),
]


@cases(("kind", "code", "options", "remedy"), REFUSALS)
def test_pairs_that_are_none_are_refused(kind, code, options, remedy):
    given = {"dim": "time", "rows": "antenna", "pairs": "cplx"} | options
    with raises(kind, code) as caught:
        td.xarray.herk(pairs, **given)
    assert remedy in caught.value.remedy


def gemm(*given, **options):
    return lambda: td.xarray.gemm(*given, dim="time", pairs="cplx", **options)


def herk(*given, **options):
    return lambda: td.xarray.herk(*given, dim="time", pairs="cplx", **options)


@cases(
    ("kind", "code", "call"),
    [
        (ArgumentError, "pairs-dtype", herk(ONE * 1.0)),
        (PlanError, "pairs-shape", gemm(ONE, pairs[0, 0, ..., 0])),
        # Doubles would round it.
        (PlanError, "pairs-shape", gemm(ONE.astype("i8"), pairs[0, 0, ..., 0] * 1.0)),
        (ArgumentError, "not-labelled", gemm(pairs.to_dataset(name="v"), pairs * 1.0)),
        (ArgumentError, "not-labelled", gemm(pairs, xr.Dataset())),
        (
            ArgumentError,
            "dtype-unsafe",
            herk(ONE, COMPLEX_C, beta=1, dtype="complex64"),
        ),
    ],
)
def test_other_matrices_are_no_pairs(kind, code, call):
    with raises(kind, code):
        call()


@cases(
    ("text", "call"),
    [
        ("td.integers.herk", lambda x: td.herk(np.zeros((4, 3, 2), np.int8))),
        ("op_b='C'", lambda x: td.integers.gemm(x, x, pairs=True)),
        ("op_a='N'", lambda x: td.gemm(np.ones((2, 3)), np.ones((3, 5)), op_a="T")),
        ("td.xarray's", lambda x: td.integers.herk(x, pairs=True, alpha=0.5)),
        ("A.isel(cplx=0)", lambda x: herk(ONE * 1.0)()),
    ],
)
def test_remedies_name_dimensions_and_routines(text, call):
    with pytest.raises(TwomError) as told:
        call(pairs.values[0, :, 0])
    assert text in told.value.remedy


@cases("x", [complex_, complex_.chunk({"time": 5, "channel": 2})])
def test_vectors_have_no_rows_or_columns(x):
    options = {"dim": ["antenna", "pol"], "num_moduli": 12}
    beam = x.isel(time=0, channel=0)
    for w in (beam, x.isel(time=0)):  # one for all channels, and one for each
        w = w.drop_vars("channel") if "channel" not in w.dims else w
        expected = td.xarray.gemm(x, w.expand_dims("beam"), **options)
        found = td.xarray.gemm(x, w, **options)
        assert found.dims == ("channel", "time")
        xr.testing.assert_identical(found, expected.isel(beam=0, drop=True))
        turned = td.xarray.gemm(w, x, C=2 * found, beta=1, conj="B", **options)
        assert {*turned.dims} == {*found.dims}
        assert np.allclose(turned, xr.dot(w, x.conj(), dim=options["dim"]) + 2 * found)
        assert td.plan(td.xarray.gemm, x.isel(channel=0), beam, **options).shape == (
            12,
            1,
            10,
        )
    number = td.xarray.gemm(beam, beam, conj="A", **options)
    assert number.dims == ()
    assert np.isclose(number, (abs(beam) ** 2).sum())


def test_sums_leave_as_integers():
    options = BY_NAME
    for x in in_chunks(pairs):
        found = td.xarray.herk(x, **options)
        sums = td.integers.to_integers(found, dtype="int32", pairs="parts")
        assert sums.dims == (*found.dims, "parts")
        assert sums.dtype == "int32"
        assert sums.chunks is None or x.chunks is not None
        xr.testing.assert_equal(sums.isel(parts=1), found.imag)
        real = td.integers.to_integers(found.real)
        xr.testing.assert_equal(real, found.real)
    for wrong in (None, True, "antenna"):
        with raises(ArgumentError, "pairs"):
            td.integers.to_integers(found, pairs=wrong)
    with raises(ArgumentError, "not-labelled"):
        td.integers.to_integers(found.values, pairs="cplx")


def test_no_copy_where_the_layout_allows_it(monkeypatch):
    seen = []

    def compute(terms, a, b, c, out, diag):
        seen.append(a)
        return np.zeros((*a.shape[:2], a.shape[1]), complex)

    monkeypatch.setattr("twom_dist.api.asking.compute_arrays", compute)
    for x in pairs, pairs.transpose("antenna", "channel", ...):
        td.xarray.herk(x, **BY_NAME)
        assert np.shares_memory(seen.pop(), INTEGERS)


def test_chunks_grow_only_along_what_is_short():
    whole = da.zeros((4, 2, 1000), chunks=(4, 1, 10))
    dates = "time", da.zeros(1000, chunks=500)
    x = xr.DataArray(whole, {"date": dates}, ("antenna", "pol", "time"))
    plan = td.plan(td.xarray.herk, x, dim=["pol", "time"], rows="antenna")
    assert max(plan.grid.k) <= 20


def test_several_dimensions_without_entries_are_contracted():
    x = xr.DataArray(np.ones((3, 3, 0, 4), "i2"), dims=["f", "a", "t", "p"])
    for given in (x, x.transpose("p", "a", "f", "t")):
        found = td.xarray.herk(given.chunk(f=1, p=2), dim=["t", "p"], rows="a")
        assert not found.values.any()
        assert found.shape == (3, 3, 3)
