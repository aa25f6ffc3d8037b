"""Finished outputs, checked by a random vector."""

from functools import partial

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.command import make
from tests.support.expect import raises
from tests.support.stored import save
from twom_dist.errors import KernelError, PlanError
from twom_dist.store import Output

# Not looked for, which takes longest.
GIVEN = {"num_moduli": 16}


@pytest.fixture
def matrices(here):
    """Store A, B (40 x 24) and C0 (40 x 40) in another format each."""
    shapes = {"A.zarr": (40, 24), "B.npy": (40, 24), "C0.h5": (40, 40)}
    for seed, (name, shape) in enumerate(shapes.items()):
        save(name, make(*shape, seed))


@pytest.mark.parametrize(
    ("routine", "options"),
    [
        ("gemm", {"op_b": "C", "accuracy": 1e-6}),
        ("gemm", {"op_a": "T", "alpha": 2 - 1j, **GIVEN}),
        ("gemm", {"op_b": "T", "alpha": 1j, "beta": 3, "c": "C0.h5", **GIVEN}),
        ("herk", {}),
        ("herk", {"uplo": "lower", "alpha": 2, "beta": -1, "c": "C0.h5", **GIVEN}),
        ("syrk", {"op": "T", "uplo": "upper", "alpha": 2j, "accuracy": 1e-6}),
        ("her2k", {"alpha": 1 + 2j, "beta": 0.5, "c": "C0.h5"}),
        ("syr2k", {"uplo": "upper", "alpha": 2j, "beta": 1j, "c": "C0.h5", **GIVEN}),
    ],
)
def test_every_routine_is_within_its_bound(matrices, routine, options):
    options = {**options, "chunks": 16, "verify": True}
    if routine == "gemm":
        summary = td.multiply_files("A.zarr", "B.npy", "C.zarr", **options)
    else:
        b = "B.npy" if "2k" in routine else None
        summary = td.update_files(
            getattr(td, routine), "A.zarr", "C.zarr", b=b, **options
        )
    assert 0 < summary.residual <= summary.residual_bound
    assert f"residual {summary.residual:.1e}" in str(summary)


@pytest.mark.parametrize(
    ("error", "cell"),
    [(1e-9, (0, 0)), (1e-9, (0, 2)), (np.nan, (0, 0)), (np.inf, (0, 2))],
)
def test_a_wrong_result_gets_no_name(matrices, here, monkeypatch, error, cell):
    """As where a worker's memory is bad."""
    write = Output.write

    def damage(output, i, j, tile):
        tile = np.array(tile)
        tile[0, 0] += error if (i, j) == cell else 0
        write(output, i, j, tile)

    monkeypatch.setattr(Output, "write", damage)
    before = sorted(here.iterdir())
    with raises(KernelError, "wrong-result"):
        td.update_files(td.herk, "A.zarr", "C.npy", verify=True, chunks=16, **GIVEN)
    assert sorted(here.iterdir()) == before


def test_without_products_of_dask_it_is_refused_first(matrices, here):
    before = sorted(here.iterdir())
    expressions = dask.config.set({"array.query-planning": True})
    with expressions, raises(PlanError, "verify-expressions"):
        td.update_files(td.herk, "A.zarr", "C.npy", verify=True)
    assert sorted(here.iterdir()) == before


def test_no_scale_hides_an_error_or_looks_like_one(matrices):
    a, b = make(40, 24, 0), make(24, 40, 1)
    np.save("small.npy", 1e-160 * a)
    np.save("large.npy", 1e200 * b)
    multiply = partial(td.multiply_files, "small.npy", "large.npy", verify=True)
    added = {"alpha": 1e-58, "c": "C0.h5", "beta": 1e-18}
    for options in ({"alpha": 1e-160}, added):
        summary = multiply("C.npy", chunks=16, overwrite=True, **options)
        assert summary.residual <= summary.residual_bound
    # Where results underflow, their rounding is no error.
    for scale in (1e-150, 1e-160, 1e-300):
        np.save("tiny.npy", scale * a)
        td.update_files(td.herk, "tiny.npy", "U.npy", verify=True, overwrite=True)
    # One row is not a number; the others are checked.
    a[3, 5] = np.nan
    np.save("small.npy", a)
    summary = multiply("D.npy")
    assert 0 < summary.residual <= summary.residual_bound
    np.save("small.npy", np.full((40, 24), np.inf))
    summary = multiply("E.npy")
    assert np.isnan(summary.residual)
    assert '"residual": null' in summary.to_json()


def test_an_overflow_is_no_error_of_the_machine(here):
    np.save("A.npy", np.array([[1e200, 1e200], [1, 2]]))
    summary = td.multiply_files("A.npy", "A.npy", "C.npy", verify=True)
    assert summary.residual <= summary.residual_bound
    assert np.isinf(np.load("C.npy")[0, 0])


@pytest.mark.parametrize("options", [GIVEN, {"accuracy": 1e-9}, {}])
@pytest.mark.parametrize("routine", ["gemm", "her2k"])
def test_a_job_that_may_shift_columns_and_shifts_none(here, routine, options):
    a = make(12, 9, 1)
    np.save("A.npy", a)
    np.save("B.npy", a.conj().T)
    options = {"equilibrate": True, **options}
    if routine == "gemm":
        td.multiply_files("A.npy", "B.npy", "C.npy", verify=True, **options)
        expected = td.gemm(a, a.conj().T, **options)
    else:
        td.update_files(td.her2k, "A.npy", "C.npy", b="A.npy", **options)
        expected = td.her2k(a, a, **options)
    assert (np.load("C.npy") == expected).all()
