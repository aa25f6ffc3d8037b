"""DataArrays: what dim contracts, what is stacked, and which labels stay."""

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import twom_dist as td
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
    found = td.gemm(a, b, dim="time")
    assert same(found, ("x", "y"), td.gemm(STACK[0], b.data))
    assert found.name is None
    assert {*found.coords} == {"x", "gain"}
    assert found.indexes["x"].equals(a.indexes["x"])
    assert same(td.zgemm(b, a, dim="time"), ("y", "x"), td.zgemm(b.data.T, STACK[0].T))
    xr.testing.assert_allclose(found, xr.dot(a, b, dim="time").transpose("x", "y"))


def test_shared_dimensions_are_stacks():
    other = stacked.rename(x="z").drop_vars("gain")
    found = td.gemm(stacked, other, dim="time")
    assert same(found, ("run", "x", "z"), td.gemm(STACK, STACK, op_b="T"))
    assert {*found.indexes} == {"run", "x", "z"}
    shared = td.gemm(a, a.rename(time="t"), dim="x")
    assert same(shared, ("time", "t"), td.gemm(STACK[0].T, STACK[0]))


@pytest.mark.parametrize("routine", [td.herk, td.syrk, td.zherk])
def test_an_update_has_its_rows_twice(routine):
    found = routine(a, dim="time", uplo="lower")
    assert same(found, ("x", "x_2"), routine(STACK[0], uplo="lower"))
    assert {*found.coords} == {"x", "x_2", "gain", "gain_2"}
    assert list(found.indexes["x_2"]) == CHANNELS["x"]
    found = routine(stacked, dim="time")
    assert same(found, ("run", "x", "x_2"), routine(STACK))
    assert list(found.indexes["run"]) == [1, 2, 3]


@pytest.mark.parametrize("routine", [td.her2k, td.syr2k])
def test_an_update_of_two_matches_their_dimensions(routine):
    found = routine(stacked, (2j * stacked).transpose("x", "time", "run"), dim="time")
    assert same(found, ("run", "x", "x_2"), routine(STACK, 2j * STACK))


def test_c_is_added_by_names():
    c = td.gemm(a, b, dim="time")
    found = td.gemm(a, b, c.T, beta=2, dim="time")
    assert same(found, ("x", "y"), td.gemm(STACK[0], b.data, c.data, beta=2))
    c = td.herk(a, dim="time")
    found = td.herk(a, c.transpose("x_2", "x"), beta=2, dim="time")
    assert same(found, ("x", "x_2"), td.herk(STACK[0], c.data, beta=2))


def test_two_words_are_two_arrays():
    for found, expected in zip(
        td.gemm(a, b, dim="time", out="dd"),
        td.gemm(STACK[0], b.data, out="dd"),
        strict=True,
    ):
        assert same(found, ("x", "y"), expected)


def test_an_index_of_several_levels_is_copied():
    levels = xr.Coordinates.from_pandas_multiindex(
        a.stack(z=("x",)).rename(x="letter").indexes["z"], "z"
    )
    found = td.herk(xr.DataArray(STACK[0], levels, ("z", "time")), dim="time")
    assert found.indexes["z_2"].equals(found.indexes["z"].rename(["letter_2"]))


def test_attributes_follow_xarrays_option():
    noted = a.assign_attrs(units="V")
    for keep, attrs in [(True, {"units": "V"}), (False, {})]:
        with xr.set_options(keep_attrs=keep):
            assert td.herk(noted, dim="time").attrs == attrs


def test_dask_arrays_stay_lazy():
    loaded = []

    def load(block):
        loaded.append(block.shape)
        return block

    lazy = a.copy(data=da.from_array(a.data, chunks=(4, 2)))
    lazy = lazy.copy(data=lazy.data.map_blocks(load, dtype=a.dtype, meta=a.data[:0]))
    update, product = td.herk(lazy, dim="time"), td.gemm(lazy, b, dim="time")
    assert td.plan_herk(lazy, dim="time").tiles == (3, 3, 2)
    assert loaded == []
    assert same(update.compute(), ("x", "x_2"), td.herk(STACK[0]))
    assert same(product.compute(), ("x", "y"), td.gemm(STACK[0], b.data))
    assert loaded


def test_plans_and_explanations_take_names():
    assert td.plan_gemm(a, b, dim="time").shape == (5, 4, 7)
    expected = td.explain(STACK[0], b.data)
    assert str(td.explain(a, b, dim="time")) == str(expected)


@pytest.mark.parametrize("chunks", [None, {"run": 2, "time": 4}])
def test_the_last_dimension_of_pairs_holds_their_parts(chunks):
    values = np.random.default_rng(1).integers(-9, 9, (7, 3, 5, 2)).astype(np.int8)
    pairs = xr.DataArray(values, dims=("time", "run", "x", "part"))
    if chunks:
        pairs = pairs.chunk(chunks)
    plain = values.transpose(1, 2, 0, 3)
    found = td.herk(pairs, dim="time", pairs=True).compute()
    assert same(found, ("run", "x", "x_2"), td.herk(plain, pairs=True))
    other = pairs.rename(x="y")
    found = td.gemm(pairs, other, dim="time", pairs=True).compute()
    right = np.swapaxes(plain, 1, 2)
    assert same(found, ("run", "x", "y"), td.gemm(plain, right, pairs=True))
    one = pairs.isel(run=0)
    expected = td.explain(plain[0], routine="herk", pairs=True)
    found = td.explain(one, routine="herk", dim="time", pairs=True)
    assert str(found) == str(expected)


def test_labels_that_differ_are_refused():
    with raises(PlanError, "labels"):
        td.gemm(a, b.isel(time=slice(None, None, -1)), dim="time")
    with raises(PlanError, "labels"):
        td.gemm(a, b.drop_vars("time").isel(time=slice(3)), dim="time")
    c = td.herk(a, dim="time").assign_coords(x_2=range(5))
    with raises(PlanError, "labels"):
        td.herk(a, c, beta=1, dim="time")


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("dim", lambda: td.gemm(a, b, dim="tide")),
        ("dim", lambda: td.gemm(a, b, dim=["time"])),
        ("dim", lambda: td.plan_gemm(a, b, dim="x")),
        ("dims", lambda: td.gemm(a, a, dim="time")),
        ("stack", lambda: td.plan_herk(stacked, dim="time")),
        ("stack", lambda: td.explain(stacked, stacked.rename(x="z"), dim="time")),
        ("dims", lambda: td.gemm(stacked, b, dim="time")),
        ("dims", lambda: td.herk(a[:, 0], dim="time")),
        ("dims", lambda: td.her2k(a, b, dim="time")),
        ("dims", lambda: td.herk(a, b, beta=1, dim="time")),
        ("dims", lambda: td.herk(a.rename(time="x_2"), dim="x_2")),
        ("pairs-shape", lambda: td.herk(a, dim="x", pairs=True)),
        ("pairs-shape", lambda: td.plan_gemm(a, b, dim="time", pairs=True)),
    ],
)
def test_dimensions_that_do_not_fit_are_refused(code, call):
    with raises(PlanError, code):
        call()


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("labelled", lambda: td.gemm(a, b)),
        ("labelled", lambda: td.gemm(a.data, b.data, a, beta=1)),
        ("labelled", lambda: td.herk(a.to_dataset())),
        ("labelled", lambda: td.plan_herk(a)),
        ("labelled", lambda: td.explain(a, b)),
        ("not-labelled", lambda: td.gemm(a, b.data, dim="time")),
        ("not-labelled", lambda: td.gemm(a.data, b.data, dim="time")),
        ("not-labelled", lambda: td.herk(a.to_dataset(), dim="time")),
        ("dim-op", lambda: td.gemm(a, b, dim="time", op_b="T")),
        ("dim-op", lambda: td.herk(a, dim="time", op="C")),
        ("no-b", lambda: td.gemm(a, None, dim="time")),
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
        td.herk(a, dim="t")


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: td.herk(a), "Give dim"),
        (lambda: td.plan_herk(a), "Give dim"),
        (lambda: td.matmul(a, b), "Give its values"),
        (lambda: td.gaussian_matmul(a, b), "Give its values"),
    ],
)
def test_the_remedy_names_dim_where_there_is_one(call, remedy):
    with raises(ArgumentError, "labelled") as caught:
        call()
    assert caught.value.remedy.startswith(remedy)
