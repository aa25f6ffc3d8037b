"""What the CUDA engine launches: every kernel, and no more than it needs."""

from collections import Counter

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.counts import assert_as_recorded, count_launches
from tests.support.cuda import every_kernel
from tests.support.cuda.host_device import EVERY_WAY
from tests.support.expect import same_bits
from tests.support.integers import random_integers
from tests.support.strategies import (
    DTYPES,
    LAYOUTS,
    near_the_end,
    random_matrix,
    spread_matrix,
    spread_pair,
)


@EVERY_WAY
def test_products_take_the_launches_that_are_recorded(cuda):
    assert_as_recorded(count_launches(cuda.device, cuda.device.capability()))


@pytest.mark.parametrize("engine", [75, 90, 100, 103, 107, 110], indirect=True)
def test_every_kernel_runs(cuda):
    every_kernel.assert_every_kernel_is_right(cuda)
    others = {"synchronize", "memset", "send", "fetch"}
    others |= {"multiply_int8", "multiply_float16"}
    launched = set(cuda.device.launched) - others
    assert launched == every_kernel.kernels_of(cuda.device.capability())


def calls_of(cuda, routine, *given, **options):
    cuda.device.launched.clear()
    cuda.device.allocated.clear()
    with np.errstate(invalid="ignore"):
        found = routine(*given, **options)
        expected = routine(*given, **options | {"engine": "cpu"})
    assert all(map(same_bits, np.array(found), np.array(expected)))
    return Counter(cuda.device.launched), len(cuda.device.allocated)


@cases("routine", [td.gemm, td.herk])
def test_a_small_product_takes_two_allocations_by_default_three(cuda, routine):
    given = [random_matrix(40, 40, phi=0.0)] * (2 if routine is td.gemm else 1)
    for _ in range(2):  # launched one by one, then by a script
        assert calls_of(cuda, routine, *given, num_moduli=3)[1] == 2
        assert calls_of(cuda, routine, *given)[1] == 3
        out = np.empty((40, 40), complex)
        assert calls_of(cuda, routine, *given, num_moduli=3, out=out)[1] == 1


@cases("routine", [td.gemm, td.herk, td.syrk, td.her2k])
def test_matrices_are_updated_where_they_lie(cuda, routine):
    A, C = (random_matrix(40, 40, "complex128", 1.0, seed) for seed in (1, 2))
    A[3, 5], C[1, 1] = np.nan, np.inf
    given = (A,) if routine in (td.herk, td.syrk) else (A, A)
    options = {"alpha": -1, "beta": 1, "num_moduli": 3}
    expected = routine(*given, C=C.copy(), engine="cpu", **options)
    assert routine(*given, C=C, out=C, **options) is C
    assert same_bits(C, expected)


@pytest.mark.parametrize("engine", [89], indirect=True)
@cases("across", [False, True])
@cases(("k", "rest"), [(900, 0), (2900, 0), (6144, 0), (6145, 128), (7100, 1024)])
def test_operands_are_read_by_one_launch(cuda, k, rest, across):
    """By four blocks a multiprocessor, by two, and by one; what they keep is copied."""
    A, B = (random_matrix(20, k, "complex128", 1.0, seed) for seed in (1, 2))
    A[1, k - 1], B[2, 17] = np.nan, np.inf
    if across:
        A = np.asfortranarray(A)
    kernels = cuda.device.kernels
    kernels.take_copied("scale_and_encode")
    calls, _ = calls_of(cuda, td.gemm, A, B.T, num_moduli=3)
    assert (calls["scale_and_encode"], calls["encode"]) == (1, 0)
    copied = kernels.take_copied("scale_and_encode")
    assert copied == (A.nbytes + B.nbytes) * (k - rest) // k


@cases(
    ("layout", "k", "dtype"),
    [
        *(("strided", 700, "complex128"), ("negative strides", 700, "complex128")),
        *(("C", 5000, "complex128"), ("fortran", 1100, "float32")),
    ],
)
def test_rows_longer_than_shared_memory_are_multiplied(cuda, layout, k, dtype):
    """With room for 256 elements, before the end of their first round or after it."""
    cuda.device.shared = 6272
    A, B = (LAYOUTS[layout](spread_matrix(m, k, dtype)) for m in (12, 5))
    stack = np.stack([random_matrix(6, k, dtype, 0.0, seed) for seed in range(3)])
    stack[1, :3, k // 2 :] *= 2.0**-6  # takes other moduli
    for routine, given, options in (
        (td.gemm, (A, B.T), {"num_moduli": 3}),
        (td.herk, (A,), {"num_moduli": 3}),
        (td.gemm, spread_pair(12, 5, k, 6, dtype), {"equilibrate": True}),
        (td.gemm, (stack, stack.swapaxes(1, 2)), {}),
    ):
        calls, _ = calls_of(cuda, routine, *given, **options)
        assert calls["scale_and_encode"] > 0 == calls["encode"]
    few, _ = calls_of(cuda, td.gemm, A[:6], B.T, num_moduli=3)
    assert not few["scale_and_encode"]  # less than two rows a multiprocessor


@cases("routine", [td.gemm, td.herk, td.syrk])
@cases("method", ["2m", "3m"])
def test_quarters_are_multiplied_by_one_call(cuda, routine, method):
    """What quarters derive is decoded as if it had been multiplied whole."""
    A = random_matrix(150, 270)
    A[3, 5] = np.nan
    given = (A, A.T) if routine is td.gemm else (A,)
    with dask.config.set({"twom-dist.winograd-levels": 1}):
        calls, _ = calls_of(cuda, routine, *given, num_moduli=3, method=method)
    assert calls["scale_and_encode"] == calls["decode_and_fill"] == 1
    assert calls["join"] == (routine is not td.syrk)
    assert calls["combine"] == (routine is td.herk and method == "3m")


@EVERY_WAY
def test_other_products_go_through_their_stages_and_wait_for_nothing(cuda):
    A, large = random_matrix(40, 20), random_matrix(300, 20)
    for routine, given, options, limit in (
        (td.twofold.gemm, (A, A.T), {}, None),
        (td.twofold.gemm, (A, A.T), {"accuracy": "normwise"}, None),
        (td.her2k, (A, A), {"num_moduli": 3}, None),
        (td.gemm, (large, large.T), {"num_moduli": 3}, 1_200_000),
    ):
        with dask.config.set({"twom-dist.workspace-bytes": limit}):
            calls, _ = calls_of(cuda, routine, *given, **options)
        assert not calls["scale_and_encode"]
        assert not calls["synchronize"]


@cases(("phi", "decided_by"), [(1.0, "octaves"), (4.0, "pairs")])
def test_what_angles_leave_open_takes_kernels_and_waits(cuda, phi, decided_by):
    n = 140 + int(phi)  # each has a recipe of its own
    A, B = (random_matrix(n, n, "complex128", phi, seed) for seed in (1, 2))
    for waits in (2, 1, 1):  # launched one by one, then by a script and a guess
        calls, _ = calls_of(cuda, td.gemm, A, B)
        assert td.explain(td.gemm, A, B).decided_by == decided_by
        assert (calls["analyse"], calls["find_errors"]) == (1, 1)
        # What decided the last time is fetched with the few numbers.
        assert calls["fetch"] == waits
        pairs = decided_by == "pairs"
        assert (calls["octaves"], calls["multiply_octaves"]) == (2 * pairs, pairs)


@cases("dtype", DTYPES)
def test_what_is_shifted_is_looked_at_again(cuda, dtype):
    A, B = spread_pair(40, 36, 44, 6, dtype)
    A[3, 4], B[5, 6] = np.nan, -np.inf
    calls, _ = calls_of(cuda, td.gemm, A, B)
    assert calls["largest_exponents"] == calls["analyse"] == 2
    A, B = near_the_end(dtype)
    for x, y in ((A, B), (B.T, A.T)):
        calls_of(cuda, td.gemm, x, y, equilibrate=True)


@cases("pairs", [False, True])
@cases("dtype", ["int8", "uint16"])
def test_exact_products_of_integers(cuda, dtype, pairs):
    """Tiles are narrower than results."""
    a = random_integers((19, 23), dtype, pairs, 1)
    b = random_integers((23, 17), dtype, pairs, 2)
    calls = [(td.integers.gemm, a, b), (td.integers.gemm, np.stack([a, a[::-1]]), b)]
    calls += [(td.integers.syrk, a)] + [(td.integers.herk, a)] * pairs
    for routine, *given in calls:
        calls_of(cuda, routine, *given, pairs=pairs)
