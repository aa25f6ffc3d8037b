"""DataArrays: what dim contracts, what is stacked, and which labels stay."""

import dask.array as da
import numpy as np
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


@cases("routine", ["herk", "syrk"])
def test_an_update_has_its_rows_twice(routine):
    named, routine = getattr(td.xarray, routine), getattr(td, routine)
    found = named(a, dim="time", uplo="lower")
    assert same(found, ("x", "x_2"), routine(STACK[0], uplo="lower"))
    assert {*found.coords} == {"x", "x_2", "gain", "gain_2"}
    assert list(found.indexes["x_2"]) == CHANNELS["x"]
    found = named(stacked, dim="time", rows="x")
    assert same(found, ("run", "x", "x_2"), routine(STACK))
    assert list(found.indexes["run"]) == [1, 2, 3]


@cases("routine", ["her2k", "syr2k"])
def test_an_update_of_two_matches_their_dimensions(routine):
    other = (2j * stacked).transpose("x", "time", "run")
    found = getattr(td.xarray, routine)(stacked, other, dim="time", rows="x")
    expected = getattr(td, routine)(STACK, 2j * STACK)
    assert same(found, ("run", "x", "x_2"), expected)


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


def gemm(*given, dim="time", **options):
    return lambda: td.xarray.gemm(*given, dim=dim, **options)


def herk(*given, dim="time", **options):
    return lambda: td.xarray.herk(*given, dim=dim, **options)


BEAMS = stacked.rename(x="z")
OTHER_C = td.xarray.herk(a, dim="time").assign_coords(x_2=range(5))
NAMED = xr.DataArray(STACK, dims=("c", "a", "t"), coords={"a_2": ("c", [4, 5, 6])})
REFUSALS = [
    (PlanError, "labels", gemm(a, b.isel(time=slice(None, None, -1)))),
    (PlanError, "labels", gemm(a, b.drop_vars("time").isel(time=slice(3)))),
    (PlanError, "labels", herk(a, OTHER_C, beta=1)),
    (PlanError, "dim", gemm(a, b, dim="tide")),
    (PlanError, "dim", gemm(a, b, dim=["time", "y"])),
    (PlanError, "dim", lambda: td.plan(td.xarray.gemm, a, b, dim="x")),
    (PlanError, "dims", gemm(a, a)),
    (
        PlanError,
        "stack",
        lambda: td.explain(td.xarray.gemm, stacked, BEAMS, dim="time"),
    ),
    (PlanError, "dims", gemm(b, stacked[:, :, 0], C=b, beta=1)),
    *(
        (PlanError, "rows", herk(stacked, **rows))
        for rows in ({}, *({"rows": x} for x in ("y", "time", ["x", "x"], [])))
    ),
    (PlanError, "dim", herk(stacked, dim=[], rows="x")),
    (PlanError, "dim", herk(stacked, dim=..., rows="x")),
    (PlanError, "dims", herk(a[:, 0])),
    (PlanError, "dims", lambda: td.xarray.her2k(a, b, dim="time")),
    (PlanError, "dims", herk(a, b, beta=1)),
    (PlanError, "dims", herk(a.rename(time="x_2"), dim="x_2")),
    (PlanError, "dims", herk(NAMED, dim="t", rows="a")),
    (ArgumentError, "labelled", lambda: td.gemm(a, b)),
    (ArgumentError, "labelled", lambda: td.gemm(a.data, b.data, a, beta=1)),
    (ArgumentError, "labelled", lambda: td.herk(a.to_dataset())),
    (ArgumentError, "labelled", lambda: td.plan(td.herk, a)),
    (ArgumentError, "labelled", lambda: td.explain(td.gemm, a, b)),
    (ArgumentError, "labelled", lambda: td.twofold.gemm(a, b)),
    (ArgumentError, "labelled", lambda: td.matmul(a, b)),
    (ArgumentError, "labelled", lambda: td.integers.matmul(a, b)),
    (ArgumentError, "not-labelled", gemm(a, b.data)),
    (ArgumentError, "not-labelled", gemm(a.data, b.data)),
    (ArgumentError, "not-labelled", herk(a.to_dataset())),
    (ArgumentError, "unknown-option", herk(a, op="C")),
    (ArgumentError, "no-b", gemm(a, None)),
]


@cases(("kind", "code", "call"), REFUSALS)
def test_what_does_not_fit_is_refused(kind, code, call):
    with raises(kind, code) as caught:
        call()
    if code == "labelled":
        assert "td.xarray" in caught.value.remedy


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
