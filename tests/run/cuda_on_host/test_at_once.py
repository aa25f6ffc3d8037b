"""Products in a few launches: the bits of the CPU engine, and what is launched."""

from collections import Counter

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.cuda.host_device import host_engine, launches_of_products
from tests.support.cuda.on_cpu import on_cpu
from tests.support.strategies import DTYPES, LAYOUTS, random_matrix, spread_pair

UPDATES = [td.herk, td.syrk]
STAGES = {"scale_and_encode"}
LAST = {
    td.gemm: {"decode", "fill_product"},
    td.herk: {"decode_and_close"},
    td.syrk: {"decode_and_close"},
}


@pytest.fixture
def engine(host_kernels):
    """The device whose products are small products at once."""
    return host_engine(host_kernels, 90)


def assert_at_once(cuda, routine, *matrices, **options):
    """Compare with the CPU, and see that it was computed so."""
    cuda.device.launched.clear()
    cuda.device.allocated.clear()
    found = routine(*matrices, **options)
    # No memset, and nobody waits.
    (products,) = launches_of_products(cuda.device)
    stages = {*STAGES, products, *LAST[routine]}
    assert Counter(cuda.device.launched) == dict.fromkeys(stages, 1)
    assert len(cuda.device.allocated) == 2
    with np.errstate(invalid="ignore"):
        assert same_bits(found, on_cpu(routine, *matrices, **options))
    return found


@pytest.mark.parametrize("routine", [td.gemm, *UPDATES])
@pytest.mark.parametrize("count", [3, 16])
def test_few_launches_and_two_allocations(cuda, routine, count):
    A = random_matrix(40, 40, "complex128", 1.0, 1)
    matrices = (A, A) if routine is td.gemm else (A,)
    assert_at_once(cuda, routine, *matrices, num_moduli=count)


@pytest.mark.parametrize("routine", [td.gemm, *UPDATES])
def test_results_are_written_where_they_are_wanted(cuda, routine):
    A, out = random_matrix(40, 40, "complex128", 1.0, 1), np.empty((40, 40), complex)
    matrices = (A, A) if routine is td.gemm else (A,)
    cuda.device.allocated.clear()
    assert routine(*matrices, num_moduli=3, out=out) is out
    assert len(cuda.device.allocated) == 1
    assert same_bits(out, on_cpu(routine, *matrices, num_moduli=3))


@pytest.mark.parametrize("routine", [td.gemm, *UPDATES, td.her2k])
def test_matrices_are_updated_where_they_lie(cuda, routine):
    A, C = (random_matrix(40, 40, "complex128", 1.0, seed) for seed in (1, 2))
    A[3, 5], C[1, 1] = np.nan, np.inf
    matrices = (A,) if routine in UPDATES else (A, A)
    options = {"alpha": -1, "beta": 1, "num_moduli": 3}
    expected = on_cpu(routine, *matrices, C=C.copy(), **options)
    assert routine(*matrices, C=C, out=C, **options) is C
    assert same_bits(C, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@sample("dtype", DTYPES, ["float32", "complex128"])
def test_gemm_of_every_layout(cuda, dtype, layout):
    A = random_matrix(19, 23, dtype, 2.0, 1)
    B = random_matrix(17, 23, dtype, 2.0, 2)
    C = random_matrix(19, 17, dtype, 2.0, 3)
    A[3, 5], B[2], C[1, 1] = np.nan, 0, np.inf
    A, B, C = map(LAYOUTS[layout], (A, B, C))
    options = {"op_b": "C", "alpha": -1.5, "beta": 0.25, "num_moduli": 8}
    assert_at_once(cuda, td.gemm, A, B, C, **options)


@pytest.mark.parametrize("value", [np.inf, np.nan, complex(0, -np.inf)])
@pytest.mark.parametrize("ops", ["NN", "CN", "NT", "CC"])
def test_what_is_not_finite_reaches_the_same_entries(cuda, ops, value):
    A, B = random_matrix(9, 9, "complex128", 1.0, 1), random_matrix(9, 9, seed=2)
    A[2, 3], A[4], A[6, 1] = value, 0, -np.inf
    B[5, 5], B[:, 7], B[3, 2] = value, 0, 0
    options = {"op_a": ops[0], "op_b": ops[1], "alpha": 0.5 - 1j, "num_moduli": 4}
    assert not np.isfinite(assert_at_once(cuda, td.gemm, A, B, **options)).all()


@pytest.mark.parametrize("method", ["2m", "3m", "4m", "hybrid", "eisenstein"])
@pytest.mark.parametrize("routine", UPDATES)
def test_updates_of_every_method(cuda, routine, method):
    A = random_matrix(37, 23, "complex128", 1.0, 1)
    for op in ("N", "C" if routine is td.herk else "T"):
        assert_at_once(cuda, routine, A, op=op, method=method, num_moduli=4)


@pytest.mark.parametrize("uplo", ["full", "lower", "upper"])
@pytest.mark.parametrize("routine", UPDATES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_updates_with_c_and_what_is_not_finite(cuda, dtype, routine, uplo):
    A, C = random_matrix(33, 20, dtype, 1.0, 1), random_matrix(33, 33, dtype, 1.0, 2)
    beyond = np.triu_indices(33, 1) if uplo != "upper" else np.tril_indices(33, -1)
    C[beyond] = np.nan
    A[3, 2], A[20, 5], A[20, 6] = np.inf, -np.inf, np.nan
    for scalars in ({}, {"alpha": -0.5, "beta": 2.5}):
        c = (C,) if scalars else ()
        options = {"uplo": uplo, "num_moduli": 5, **scalars}
        assert_at_once(cuda, routine, A, *c, **options)


def calls_of_default(cuda, routine, *matrices, **options):
    """Compare with the CPU; return what was launched, and count allocations."""
    cuda.device.launched.clear()
    cuda.device.allocated.clear()
    found = routine(*matrices, **options)
    with np.errstate(invalid="ignore"):
        assert same_bits(found, on_cpu(routine, *matrices, **options))
    return Counter(cuda.device.launched), len(cuda.device.allocated)


LOOKS = [
    *("memset", "largest_exponents", "sums_and_extremes", "summarise"),
    *("error_sums", "largest_sums", "fetch"),
]


@pytest.mark.parametrize("phi", [0.0, 0.5])
@pytest.mark.parametrize("routine", [td.gemm, *UPDATES])
def test_by_default_five_kernels_and_one_wait_choose_the_moduli(cuda, routine, phi):
    A, B = (random_matrix(400, 400, "complex128", phi, seed) for seed in (1, 2))
    matrices = (A, B) if routine is td.gemm else (A,)
    for _ in range(2):  # launched one by one, then by a script and a guess
        calls, allocated = calls_of_default(cuda, routine, *matrices)
        assert calls == dict.fromkeys([*LOOKS, *STAGES, "products", *LAST[routine]], 1)
        assert allocated == 3


def test_rounding_errors_take_no_wait_of_their_own(cuda):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((400, 400)) + 1j * rng.standard_normal((400, 400))
    calls, _ = calls_of_default(cuda, td.gemm, A, A)
    assert td.explain(td.gemm, A, A).closed_by == "errors"
    assert calls == dict.fromkeys([*LOOKS, *STAGES, "products", *LAST[td.gemm]], 1)


def test_scripts_of_looks_tell_one_matrix_from_two(cuda):
    A, B = (random_matrix(90, 90, "complex128", 0.5, seed) for seed in (1, 2))
    B[3] *= 2.0**-9
    for pair in ((A, A), (A, B), (A, A), (B, A)):
        calls_of_default(cuda, td.gemm, *pair, op_b="T")


OCTAVES = {"octaves": 2, "count_octaves": 2, "memset": 3, "fetch": 4}


@pytest.mark.parametrize(("phi", "closed_by"), [(1.0, "octaves"), (4.0, "pairs")])
def test_what_angles_leave_open_takes_four_kernels_more(cuda, phi, closed_by):
    A, B = (random_matrix(140, 140, "complex128", phi, seed) for seed in (1, 2))
    for _ in range(3):  # launched one by one, then by a script and a guess
        calls, _ = calls_of_default(cuda, td.gemm, A, B)
        assert td.explain(td.gemm, A, B).closed_by == closed_by
        once = [*LOOKS[:-1], *STAGES, "products", *LAST[td.gemm]]
        expected = dict.fromkeys(once, 1) | OCTAVES
        if closed_by == "pairs":
            expected["multiply_octaves"] = 1
        assert calls == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_shifted_is_looked_at_again(cuda, dtype):
    A, B = spread_pair(40, 36, 44, 6, dtype)
    A[3, 4], B[5, 6] = np.nan, -np.inf
    calls, _ = calls_of_default(cuda, td.gemm, A, B)
    assert calls["largest_exponents"] == calls["sums_and_extremes"] == 2
    assert calls["fetch"] == 3


def test_more_than_one_square_of_256(cuda):
    A = random_matrix(262, 20, "complex64", 1.0, 1)
    for routine, matrices in ((td.gemm, (A, A.T)), (td.herk, (A,))):
        assert_at_once(cuda, routine, *matrices, num_moduli=2)


@pytest.mark.parametrize("k", [2816, 2817])
def test_operands_are_read_once_where_shared_memory_keeps_a_row(engine, cuda, k):
    engine.device._capability = 89
    A, B = (random_matrix(5, k, "complex128", 1.0, seed) for seed in (1, 2))
    A[1, k - 1], B[2, 17] = np.nan, np.inf
    found = td.gemm(A, B.T, num_moduli=3)
    with np.errstate(invalid="ignore"):
        assert same_bits(found, on_cpu(td.gemm, A, B.T, num_moduli=3))
    launched = Counter(cuda.device.launched)
    if k == 2816:
        assert launched["scale_and_encode"] == 1
    else:
        names = "largest_exponents", "sums_and_extremes", "encode"
        assert [launched[x] for x in names] == [1, 1, 2]


def test_other_products_go_through_their_stages(cuda, monkeypatch):
    A = random_matrix(20, 20, "complex128", 1.0, 1)
    large = random_matrix(300, 20, "complex128", 1.0, 3)
    workspace = {"twom-dist.workspace-bytes": 1_000_000}
    long = random_matrix(20, 301, "complex128", 1.0, 2)
    fits = "twom_dist.kernels.cuda.engine.fits"
    monkeypatch.setattr(fits, lambda _, system, k: k <= 300)
    for routine, matrices, options, settings in (
        (td.twofold.gemm, (A, A), {}, {}),
        (td.twofold.gemm, (A, A), {"accuracy": "normwise"}, {}),
        (td.gemm, (long, long.T), {}, {}),
        (td.gemm, (long, long.T), {"num_moduli": 3}, {}),
        (td.her2k, (A, A), {"num_moduli": 3}, {}),
        (td.gemm, (large, large.T), {"num_moduli": 3}, workspace),
    ):
        cuda.device.launched.clear()
        with dask.config.set(settings):
            found = routine(*matrices, **options)
        assert "scale_and_encode" not in cuda.device.launched
        expected = on_cpu(routine, *matrices, **options)
        assert all(map(same_bits, np.array(found), np.array(expected)))
