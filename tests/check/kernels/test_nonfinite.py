"""NaN and Inf on NumPy arrays: products of signs, and none of rows with a NaN."""

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.contract.fill import *  # noqa: F403
from tests.support.nonfinite import PATTERNS, make_pair
from twom_dist.kernels import nonfinite
from twom_dist.moduli import NAN_ROW


def test_rows_with_a_nan_are_not_multiplied(engine, monkeypatch):
    def refuse(*_):
        raise AssertionError("multiplied")

    monkeypatch.setattr(nonfinite, "_sign_product", refuse)
    x, y = (np.zeros((2, 5, 4), complex) for _ in range(2))
    rows, columns = np.full((2, 5), NAN_ROW, np.int32), np.zeros((2, 5), np.int32)
    for e, f in ((rows, columns), (columns, rows)):
        out = np.zeros((2, 5, 5), complex)
        engine.apply_fill(engine.find_fill(x, y, e, f, (False, False)), out, 1, 0, None)
        assert np.isnan(out.view(float)).all()


@cases("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_products_do_not_depend_on_tiles(dtype, pattern):
    x, y = make_pair(pattern, 7, 9, 40, dtype)
    c = np.ones((7, 9), dtype)
    c[2, 3] = np.nan
    with np.errstate(invalid="ignore"):
        expected = td.gemm(x, y.T, c, beta=2, num_moduli=3, engine="reference")
        a, b = da.from_array(x, chunks=(4, 9)), da.from_array(y.T, chunks=(9, 5))
        with dask_panels():
            found = td.gemm(a, b, c, beta=2, num_moduli=3).compute(scheduler="sync")
        assert same_bits(found, expected)
        assert same_bits(td.gemm(x, y.T, c, beta=2, num_moduli=3), expected)


def dask_panels():
    """One tile along k at a time."""
    import dask

    return dask.config.set({"twom-dist.panel-bytes": 1})


@pytest.mark.parametrize("routine", [td.gemm, td.herk, td.syrk, td.her2k, td.syr2k])
@cases("pattern", ["a NaN in each row", "an Inf in each row", "both and NaN"])
@cases("uplo", ["full", "lower", "upper"])
def test_updates_of_both_engines(routine, pattern, uplo):
    x, y = make_pair(pattern, 8, 8, 20, "complex64")
    given = (x,) if routine in (td.herk, td.syrk) else (x, y)
    options = {"op_b": "C"} if routine is td.gemm else {"uplo": uplo}
    found = [
        routine(*given, num_moduli=3, engine=name, **options)
        for name in ("cpu", "reference")
    ]
    assert same_bits(*found)
