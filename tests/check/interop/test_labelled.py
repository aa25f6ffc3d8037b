"""DataArrays: what dim contracts, what is stacked, and which labels stay."""

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import ArgumentError, PlanError

STACK = np.stack([td.testing.random_matrix(5, 7, seed=seed) for seed in range(3)])
TIME = np.arange(7) * 10
CHANNELS = {"x": list("abcde"), "gain": ("x", np.arange(5.0))}
# Of one matrix, and of three, in the order of nobody's matrix.
a = xr.DataArray(STACK[0].T, {"time": TIME, **CHANNELS}, ("time", "x"), name="a")
stacked = xr.DataArray(
    STACK.transpose(2, 0, 1),
    {"time": TIME, "run": [1, 2, 3], **CHANNELS},
    ("time", "run", "x"),
)
b = xr.DataArray(
    td.testing.random_matrix(7, 4, seed=9), {"time": TIME}, ("time", "y"), name="b"
)


def same(found, dims, values):
    return found.dims == dims and found.data.tobytes() == values.tobytes()


def test_a_product_contracts_what_it_is_told():
    found = td.xarray.gemm(a, b, dim="time")
    assert same(found, ("x", "y"), td.gemm(STACK[0], b.data))
    assert found.name is None
    assert {*found.coords} == {"x", "gain"}
    assert found.indexes["x"].equals(a.indexes["x"])
    turned = td.xarray.gemm(b, a, dim="time")
    assert same(turned, ("y", "x"), td.gemm(b.data.T, STACK[0].T))
    xr.testing.assert_allclose(found, xr.dot(a, b, dim="time").transpose("x", "y"))


def test_shared_dimensions_are_stacks():
    other = stacked.rename(x="z").drop_vars("gain")
    found = td.xarray.gemm(stacked, other, dim="time")
    assert same(found, ("run", "x", "z"), td.gemm(STACK, STACK, op_b="T"))
    assert {*found.indexes} == {"run", "x", "z"}
    shared = td.xarray.gemm(a, a.rename(time="t"), dim="x")
    assert same(shared, ("time", "t"), td.gemm(STACK[0].T, STACK[0]))


@pytest.mark.parametrize("routine", ["herk", "syrk"])
def test_an_update_has_its_rows_twice(routine):
    named, routine = getattr(td.xarray, routine), getattr(td, routine)
    found = named(a, dim="time", uplo="lower")
    assert same(found, ("x", "x_2"), routine(STACK[0], uplo="lower"))
    assert {*found.coords} == {"x", "x_2", "gain", "gain_2"}
    assert list(found.indexes["x_2"]) == CHANNELS["x"]
    found = named(stacked, dim="time", rows="x")
    assert same(found, ("run", "x", "x_2"), routine(STACK))
    assert list(found.indexes["run"]) == [1, 2, 3]


@pytest.mark.parametrize("routine", ["her2k", "syr2k"])
def test_an_update_of_two_matches_their_dimensions(routine):
    named, routine = getattr(td.xarray, routine), getattr(td, routine)
    found = named(
        stacked, (2j * stacked).transpose("x", "time", "run"), dim="time", rows="x"
    )
    assert same(found, ("run", "x", "x_2"), routine(STACK, 2j * STACK))


def test_c_is_added_by_names():
    c = td.xarray.gemm(a, b, dim="time")
    found = td.xarray.gemm(a, b, c.T, beta=2, dim="time")
    assert same(found, ("x", "y"), td.gemm(STACK[0], b.data, c.data, beta=2))
    c = td.xarray.herk(a, dim="time")
    found = td.xarray.herk(a, c.transpose("x_2", "x"), beta=2, dim="time")
    assert same(found, ("x", "x_2"), td.herk(STACK[0], c.data, beta=2))


def test_an_index_of_several_levels_is_copied():
    levels = xr.Coordinates.from_pandas_multiindex(
        a.stack(z=("x",)).rename(x="letter").indexes["z"], "z"
    )
    found = td.xarray.herk(xr.DataArray(STACK[0], levels, ("z", "time")), dim="time")
    assert found.indexes["z_2"].equals(found.indexes["z"].rename(["letter_2"]))


def test_attributes_follow_xarrays_option():
    noted = a.assign_attrs(units="V")
    for keep, attrs in [(True, {"units": "V"}), (False, {})]:
        with xr.set_options(keep_attrs=keep):
            assert td.xarray.herk(noted, dim="time").attrs == attrs


def test_dask_arrays_stay_lazy():
    loaded = []

    def load(block):
        loaded.append(block.shape)
        return block

    lazy = a.copy(data=da.from_array(a.data, chunks=(4, 2)))
    lazy = lazy.copy(data=lazy.data.map_blocks(load, dtype=a.dtype, meta=a.data[:0]))
    update, product = (
        td.xarray.herk(lazy, dim="time"),
        td.xarray.gemm(lazy, b, dim="time"),
    )
    assert td.plan(td.xarray.herk, lazy, dim="time").tiles == (3, 3, 2)
    assert loaded == []
    assert same(update.compute(), ("x", "x_2"), td.herk(STACK[0]))
    assert same(product.compute(), ("x", "y"), td.gemm(STACK[0], b.data))
    assert loaded


def test_plans_and_explanations_take_names():
    assert td.plan(td.xarray.gemm, a, b, dim="time").shape == (5, 4, 7)
    expected = td.explain(td.gemm, STACK[0], b.data)
    assert str(td.explain(td.xarray.gemm, a, b, dim="time")) == str(expected)


def test_labels_that_differ_are_refused():
    with raises(PlanError, "labels"):
        td.xarray.gemm(a, b.isel(time=slice(None, None, -1)), dim="time")
    with raises(PlanError, "labels"):
        td.xarray.gemm(a, b.drop_vars("time").isel(time=slice(3)), dim="time")
    c = td.xarray.herk(a, dim="time").assign_coords(x_2=range(5))
    with raises(PlanError, "labels"):
        td.xarray.herk(a, c, beta=1, dim="time")


@cases(
    ("code", "call"),
    [
        ("dim", lambda: td.xarray.gemm(a, b, dim="tide")),
        ("dim", lambda: td.xarray.gemm(a, b, dim=["time", "y"])),
        ("dim", lambda: td.plan(td.xarray.gemm, a, b, dim="x")),
        ("dims", lambda: td.xarray.gemm(a, a, dim="time")),
        (
            "stack",
            lambda: td.explain(
                td.xarray.gemm, stacked, stacked.rename(x="z"), dim="time"
            ),
        ),
        ("dims", lambda: td.xarray.gemm(b, stacked[:, :, 0], dim="time", C=b, beta=1)),
        ("rows", lambda: td.xarray.herk(stacked, dim="time")),
        ("rows", lambda: td.xarray.herk(stacked, dim="time", rows="y")),
        ("rows", lambda: td.xarray.herk(stacked, dim="time", rows="time")),
        ("rows", lambda: td.xarray.herk(stacked, dim="time", rows=["x", "x"])),
        ("rows", lambda: td.xarray.herk(stacked, dim="time", rows=[])),
        ("dim", lambda: td.xarray.herk(stacked, dim=[], rows="x")),
        ("dim", lambda: td.xarray.herk(stacked, dim=..., rows="x")),
        ("dims", lambda: td.xarray.herk(a[:, 0], dim="time")),
        ("dims", lambda: td.xarray.her2k(a, b, dim="time")),
        ("dims", lambda: td.xarray.herk(a, b, beta=1, dim="time")),
        ("dims", lambda: td.xarray.herk(a.rename(time="x_2"), dim="x_2")),
    ],
)
def test_dimensions_that_do_not_fit_are_refused(code, call):
    with raises(PlanError, code):
        call()


def test_chunks_of_unknown_size_are_refused_until_they_are_counted():
    lazy = da.from_array(STACK[0].T, chunks=(4, 2))
    chosen = xr.DataArray(lazy[:, lazy[0].real > 0], dims=("time", "x"))
    by_name = b.drop_vars("time")
    for call in (
        lambda: td.xarray.gemm(chosen, by_name, dim="time"),
        lambda: td.xarray.gemm(by_name, chosen, dim="time"),
        lambda: td.xarray.herk(chosen, dim="time"),
        lambda: td.xarray.herk(chosen, dim="x"),
        lambda: td.plan(td.xarray.herk, chosen, dim="time"),
    ):
        with raises(PlanError, "unknown-chunks"):
            call()
    chosen.data.compute_chunk_sizes()
    found = td.xarray.herk(chosen, dim="time").compute()
    assert (found.data == td.herk(chosen.data.T.compute())).all()


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("labelled", lambda: td.gemm(a, b)),
        ("labelled", lambda: td.gemm(a.data, b.data, a, beta=1)),
        ("labelled", lambda: td.herk(a.to_dataset())),
        ("labelled", lambda: td.plan(td.herk, a)),
        ("labelled", lambda: td.explain(td.gemm, a, b)),
        ("not-labelled", lambda: td.xarray.gemm(a, b.data, dim="time")),
        ("not-labelled", lambda: td.xarray.gemm(a.data, b.data, dim="time")),
        ("not-labelled", lambda: td.xarray.herk(a.to_dataset(), dim="time")),
        ("labelled", lambda: td.twofold.gemm(a, b)),
        ("labelled", lambda: td.matmul(a, b)),
        ("labelled", lambda: td.integers.matmul(a, b)),
        ("unknown-option", lambda: td.plan(td.xarray.herk, a, dim="time", op="C")),
        ("no-b", lambda: td.xarray.gemm(a, None, dim="time")),
    ],
)
def test_what_has_no_names_and_names_without_dim_are_refused(code, call):
    with raises(ArgumentError, code):
        call()


def test_coordinates_are_not_lost_to_those_of_columns():
    a = xr.DataArray(
        np.ones((2, 3, 4)), dims=("c", "a", "t"), coords={"a_2": ("c", [4, 5])}
    )
    with raises(PlanError, "dims"):
        td.xarray.herk(a, dim="t", rows="a")


def test_the_remedy_names_the_routines_that_take_them():
    with raises(ArgumentError, "labelled") as caught:
        td.herk(a)
    assert "td.xarray.herk" in caught.value.remedy
