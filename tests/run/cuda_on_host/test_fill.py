"""NaN and Inf on the CUDA engine: the bits of the CPU's, and what is read."""

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases, sample
from tests.support.contract.fill import *  # noqa: F403
from tests.support.cuda.host_device import FUSED_OR_NOT
from tests.support.cuda.on_cpu import on_cpu
from tests.support.nonfinite import PATTERNS, make_pair
from tests.support.strategies import DTYPES, LAYOUTS
from twom_dist.kernels.cuda import fill
from twom_dist.kernels.cuda.decode import decode_and_close
from twom_dist.kernels.cuda.int8_gemm import align
from twom_dist.moduli import NAN_ROW, NONFINITE_ROW, residue_system

LAY = [LAYOUTS[name] for name in ("C", "fortran", "negative strides")]
UPDATES = [td.herk, td.syrk, td.her2k, td.syr2k]


def assert_same(routine, *given, **options):
    """Compare with the CPU."""
    with np.errstate(invalid="ignore"):
        found = routine(*given, num_moduli=2, **options)
        assert same_bits(found, on_cpu(routine, *given, num_moduli=2, **options))


@FUSED_OR_NOT
@cases("pattern", PATTERNS)
@sample("dtype", DTYPES, ["float32", "complex128"])
def test_every_pattern_in_every_layout(cuda, dtype, pattern):
    """Squares of 64 that are ragged, and words of 32."""
    x, y = make_pair(pattern, 66, 70, 79, dtype)
    for lay in LAY:
        assert_same(td.gemm, lay(x), lay(y), op_b="T")
    c = np.resize(x, (66, 70))
    assert_same(td.gemm, x, y, c, op_b="C", alpha=-0.5, beta=2.5)


@FUSED_OR_NOT
@pytest.mark.parametrize("uplo", ["full", "lower", "upper"])
@pytest.mark.parametrize("routine", UPDATES)
@cases("pattern", ["a NaN in each row", "an Inf in each row", "some of all kinds"])
def test_updates(cuda, routine, uplo, pattern):
    x, y = make_pair(pattern, 35, 35, 270, "complex128")
    given = (x,) if routine in (td.herk, td.syrk) else (x, y)
    assert_same(routine, *given, uplo=uplo)
    assert_same(routine, *(t[:, :30] for t in given), uplo=uplo)


@FUSED_OR_NOT
@cases("pattern", PATTERNS)
def test_stacks_and_panels(cuda, pattern):
    x, y = make_pair(pattern, 18, 20, 70, "complex64")
    assert_same(td.gemm, np.stack([x, x[::-1], np.zeros_like(x)]), np.stack([y.T] * 3))
    a, b = da.from_array(x, chunks=(9, 33)), da.from_array(y.T, chunks=(33, 20))
    with dask.config.set({"twom-dist.panel-bytes": 1}), np.errstate(invalid="ignore"):
        found = td.gemm(a, b, num_moduli=2).compute(scheduler="sync")
    assert same_bits(found, on_cpu(td.gemm, x, y.T, num_moduli=2))


SIDES = {"mark_nonfinite": 64, "fill_product": 64, "decode_and_close": 32}


def count_loads(engine, kernel, x, y, rows, columns):
    """Count what a kernel that marks loads; of residues, as many each time."""
    out = np.zeros((len(x), len(y)), x.dtype)
    given = engine.device, x, y, rows, columns, (False, True)
    if kernel == "mark_nonfinite":
        fill.mark_nonfinite(*given)
    elif kernel == "fill_product":
        fill.fill_product(*given, out, 1, 0, None)
    else:
        system = residue_system("2m" if out.dtype.kind == "c" else "real", 2)
        shape = system.num_products, len(x), align(len(x))
        residues = np.zeros(shape, np.int8)
        more = residues, rows, columns, system, out, 1, 0, None, "lower", True
        decode_and_close(engine.device, x, y, (False, True), *more)
    return engine.device.kernels.loads[kernel]


@pytest.mark.parametrize("kernel", SIDES)
def test_a_nan_in_every_row_is_not_searched_for(engine, kernel):
    x = np.full((130, 400), np.nan + 1j)
    found, finite = np.full(130, NAN_ROW, np.int32), np.zeros(130, np.int32)
    clean = count_loads(engine, kernel, x, x, finite, finite)
    for rows, columns in ((found, finite), (finite, found), (found, found)):
        assert count_loads(engine, kernel, x, x, rows, columns) == clean
    if kernel != "decode_and_close":
        # Two exponents an element, of whole squares at most.
        assert clean <= 2 * 130**2


@pytest.mark.parametrize(("kernel", "side"), SIDES.items())
def test_entries_beside_an_inf_are_read_once_for_each_square(engine, kernel, side):
    """In place of once for each element; and where there is no Inf on one side only."""
    n, k = 128, 600
    x = np.ones((n, k), complex)
    infinite, finite = np.full(n, NONFINITE_ROW, np.int32), np.zeros(n, np.int32)
    clean = count_loads(engine, kernel, x, x, finite, finite)
    squares = (n // side) ** 2
    if kernel == "decode_and_close":
        squares = n // side * (n // side + 1) // 2
    x[:, 5] = np.inf
    found = count_loads(engine, kernel, x, np.ones_like(x), infinite, finite)
    chunk, exponents = 32 * 128 // side, squares * 256
    assert found - clean <= squares * side * (k + chunk) + exponents
    # Of one sign: every term counts.
    x = np.ones((n, k))
    x[:, ::2] = np.inf
    found = count_loads(engine, kernel, x, x, infinite, infinite)
    assert found - clean <= squares * 2 * side * k + exponents


def test_terms_end_where_all_elements_are_nan(engine):
    x = np.ones((64, 6400))
    x[:, ::2], x[:, 1::4] = np.inf, -np.inf
    e = np.full(64, NONFINITE_ROW, np.int32)
    found = count_loads(engine, "fill_product", x, np.ones_like(x), e, 0 * e)
    assert found < 64 * 2 * 200
