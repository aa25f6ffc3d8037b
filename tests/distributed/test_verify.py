"""Finished outputs, checked by a random vector."""

import numpy as np
import pytest

import twom_dist as td
from tests.command import make
from tests.expect import raises
from tests.stored import save
from twom_dist.errors import KernelError
from twom_dist.jobs import driver, run


@pytest.fixture
def matrices(tmp_path, monkeypatch):
    """Store A, B (40 x 24) and C0 (40 x 40) in another format each."""
    monkeypatch.chdir(tmp_path)
    shapes = {"A.zarr": (40, 24), "B.npy": (40, 24), "C0.h5": (40, 40)}
    for seed, (name, shape) in enumerate(shapes.items()):
        save(name, make(*shape, seed))


@pytest.mark.parametrize("accuracy", ["native", 1e-6])
@pytest.mark.parametrize(
    ("routine", "options"),
    [
        ("gemm", {"op_b": "C"}),
        ("gemm", {"op_a": "T", "alpha": 2 - 1j}),
        ("gemm", {"op_b": "T", "alpha": 1j, "beta": 3, "c": "C0.h5"}),
        ("herk", {}),
        ("herk", {"uplo": "lower", "alpha": 2, "beta": -1, "c": "C0.h5"}),
        ("syrk", {"op": "T", "uplo": "upper", "alpha": 2j}),
        ("her2k", {"alpha": 1 + 2j, "beta": 0.5, "c": "C0.h5"}),
        ("syr2k", {"uplo": "upper", "alpha": 1 + 2j, "beta": 1j, "c": "C0.h5"}),
    ],
)
def test_every_routine_is_within_its_bound(matrices, routine, options, accuracy):
    options = {**options, "tile": 16, "verify": True, "accuracy": accuracy}
    if routine == "gemm":
        summary = td.multiply_files("A.zarr", "B.npy", "C.zarr", **options)
    else:
        b = "B.npy" if "2k" in routine else None
        summary = td.update_files(routine, "A.zarr", "C.zarr", b, **options)
    assert 0 < summary.residual <= summary.residual_bound
    assert f"residual {summary.residual:.1e}" in str(summary)


def test_a_wrong_output_is_refused_and_one_with_nans_is_not_checked(matrices):
    td.multiply_files("A.zarr", "B.npy", "C.npy", op_b="C")
    values = np.load("C.npy")
    values[3, 5] += 1e-9
    np.save("C.npy", values)
    job = driver.open_job("gemm", "A.zarr", "B.npy", "C.npy", op_b="C", overwrite=True)
    with raises(KernelError, "wrong-result"):
        driver.verify_output(job, (16, 16, 16))
    values[3, 5] = np.nan
    np.save("C.npy", values)
    assert np.isnan(driver.verify_output(job, (16, 16, 16))[0])
    assert run.find_unfinished("C.npy").find() is None
