"""NaN and Inf on NumPy arrays: products of signs, and none of rows with a NaN."""

import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.nonfinite import PATTERNS, is_reached, make_pair, native_values
from tests.support.strategies import DTYPES
from twom_dist.kernels import nonfinite
from twom_dist.kernels.finish import scale_and_add
from twom_dist.moduli import NAN_ROW, NONFINITE_ROW


def assert_fill(engine, x, y, conjugate, **scalars):
    """Compare what is filled with native products of all signs, and leave the rest."""
    rows, columns = (engine.largest_exponents(t) for t in (x, y))
    fill = engine.find_fill(x, y, rows, columns, conjugate)
    c = np.ones((len(x), len(y)), x.dtype)
    out = c.copy()
    scalars = {"alpha": 1, "beta": 0, **scalars}
    engine.apply_fill(fill, out, **scalars, c=c)
    given = (np.conj(t) if own else t for t, own in zip((x, y), conjugate, strict=True))
    expected = scale_and_add(native_values(*given), *scalars.values(), c, x.dtype)
    reached = is_reached(x, y)
    assert same_bits(out[reached], expected[reached])
    assert same_bits(out[~reached], c[~reached])


@cases("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_filled_elements_are_products_of_signs(engine, dtype, pattern):
    x, y = make_pair(pattern, 7, 9, 70, dtype)
    for conjugate in ((False, False), (True, False), (True, True)):
        assert_fill(engine, x, y, conjugate)
    assert_fill(engine, x, y, (False, True), alpha=-0.5, beta=2.0)
    if x.dtype.kind == "c":
        assert_fill(engine, x, y, (False, True), alpha=0.5 - 1j, beta=1j)


@cases("dtype", DTYPES)
def test_a_nan_is_told_from_an_inf(engine, dtype):
    x, parts = np.ones((6, 5), dtype), [np.nan, np.inf, -np.inf]
    for row, value in enumerate(parts):
        x[row, row] = value
    x[3, :2], x[4, :2] = [np.inf, np.nan], [np.nan, -np.inf]
    if x.dtype.kind == "c":
        x[1, 1], x[4, 0] = complex(0, np.inf), complex(0, -np.nan)
    found = engine.largest_exponents(x)
    expected = [NAN_ROW, *[NONFINITE_ROW] * 2, *[NAN_ROW] * 2, 1]
    assert found.tolist() == expected
    # Tiles, and shifts that make numbers infinite.
    cut = [engine.largest_exponents(t) for t in (x[:, :1], x[:, 1:])]
    assert np.maximum(*cut).tolist() == expected
    x[5, 0] = np.finfo(dtype).max
    shifts = np.full(5, 9, np.int32)
    assert engine.largest_exponents(x, shifts)[:5].tolist() == expected[:5]


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
