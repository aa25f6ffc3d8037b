"""Finished outputs, checked by a random vector."""

import numpy as np
import pytest

import twom_dist as td
from tests.command import make
from tests.expect import raises
from tests.stored import save
from twom_dist.errors import KernelError
from twom_dist.store import Output


@pytest.fixture
def matrices(here):
    """Store A, B (40 x 24) and C0 (40 x 40) in another format each."""
    shapes = {"A.zarr": (40, 24), "B.npy": (40, 24), "C0.h5": (40, 40)}
    for seed, (name, shape) in enumerate(shapes.items()):
        save(name, make(*shape, seed))


@pytest.mark.parametrize("accuracy", ["native", 1e-6])
@pytest.mark.parametrize(
    ("routine", "options"),
    [
        ("gemm", {"op_a": "T", "alpha": 2 - 1j}),
        ("gemm", {"op_b": "C", "alpha": 1j, "beta": 3, "c": "C0.h5"}),
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


def test_a_wrong_result_gets_no_name(matrices, monkeypatch, here):
    """As where a worker's memory is bad."""
    write = Output.write

    def damage(output, i, j, tile):
        tile = np.array(tile)
        tile[0, 0] += error if (i, j) == cell else 0
        write(output, i, j, tile)

    monkeypatch.setattr(Output, "write", damage)
    before = sorted(here.iterdir())
    options = {"op_b": "C", "verify": True, "tile": 16}
    with raises(KernelError, "wrong-result"):
        td.multiply_files("A.zarr", "B.npy", "C.npy", **options)
    assert sorted(here.iterdir()) == before
    off["by"] = np.nan
    summary = td.multiply_files("A.zarr", "B.npy", "C.npy", **options)
    assert np.isnan(summary.residual)
    assert '"residual": null' in summary.to_json()
