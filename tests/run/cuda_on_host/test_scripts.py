"""Scripts, recipes and guesses: what is kept of a call decides nothing about the next.

That calls of one shape have the CPU's bits is in the contract of routines.
"""

from collections import Counter

import numpy as np
import pytest

import twom_dist as td
from tests.support.cuda.deferred_device import deferred_engine
from tests.support.cuda.host_device import host_engine
from tests.support.expect import raises, same_bits
from tests.support.strategies import random_matrix
from twom_dist.errors import PlanError


@pytest.fixture(params=[90, 89], ids=["sm_90", "sm_89"])
def engine(host_kernels, request):
    """A device with scripts of its own; planes are given as they are to one of them."""
    return host_engine(host_kernels, request.param)


def launches(cuda, routine, *given, **options):
    cuda.device.launched.clear()
    cuda.device.repeated.clear()
    with np.errstate(all="ignore"):
        found = np.array(routine(*given, **options))
        assert same_bits(found, routine(*given, **options | {"engine": "cpu"}))
    return cuda.device.launched[:], cuda.device.repeated[:]


def fresh(seed, m=40, k=33):
    """Make a matrix that lies where no other has lain."""
    found = random_matrix(m, k, "complex128", 1.0, seed)
    found[seed % m, 3] = (np.nan, np.inf, 7)[seed % 3]
    return found


def fresh_pair(phi, seed=1):
    return tuple(random_matrix(40, 40, "complex128", phi, seed + x) for x in (0, 9))


NAN = {"alpha": float("nan"), "beta": complex("1+nanj")}
# The routine, k of each matrix, and options.
CALLS = {
    "gemm": (td.gemm, [33, 33], {"op_b": "C"}),
    "nan": (td.gemm, [33, 33, 40], {"op_b": "T", **NAN}),
    "herk": (td.herk, [33], {"uplo": "lower"}),
    "derived": (td.herk, [400], {}),
    "equilibrated": (td.gemm, [33, 33], {"op_b": "C", "equilibrate": True}),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_scripts_that_launch_the_same(cuda, name):
    (routine, lengths, options), found = CALLS[name], []
    for seed in (0, 10, 20):
        matrices = [fresh(seed + i, k=k) for i, k in enumerate(lengths)]
        if "equilibrate" in options:
            with np.errstate(invalid="ignore"):
                matrices[0] *= 1e9 ** np.linspace(-1, 1, 33)
        found.append(launches(cuda, routine, *matrices, num_moduli=8, **options))
    (first, repeated), (second, _), (third, _) = found
    assert Counter(first) == Counter(second) == Counter(third)
    assert repeated


def test_calls_that_differ_in_little_are_told_apart(cuda):
    """Arrays that were one, other strides, scalars, dtypes, looks and results."""
    a, b = fresh(2), fresh(5)
    calls = [
        ((a, a), {}),
        ((a, b), {}),
        ((a, np.asfortranarray(b)), {}),
        ((a, b), {"alpha": 2.0}),
        ((a, b), {"alpha": 2j}),
        ((a, b), {"alpha": np.array(2.0)}),
        ((a, b), {"equilibrate": True}),
        ((a.astype("c8"), b), {}),
        ((a[:, :20], b[:, :20]), {}),
        ((a, b, a[:, :1] * np.ones(40)), {"beta": 1}),
        ((a, b), {"out": np.empty((40, 40), complex).T}),
    ]
    for _ in range(2):
        for matrices, options in calls:
            launches(cuda, td.gemm, *matrices, op_b="C", num_moduli=8, **options)
    for factor in (-0.0, 0.0, complex(0.0, -0.0), -0.0):
        x = -np.ones((4, 4))
        assert not np.signbit(td.gemm(x + 0j, x, alpha=factor, num_moduli=8).real).any()


def test_an_out_is_checked_each_time(cuda):
    a, out = np.ones((40, 40), complex), np.empty((40, 40), complex)
    for _ in range(2):
        td.gemm(a, a, num_moduli=8, out=out)
        with raises(PlanError, "out"):
            td.gemm(out, a, num_moduli=8, out=out)
    read_only = np.empty((40, 40), complex)
    read_only.flags.writeable = False
    with raises(PlanError, "out"):
        td.gemm(a, a, num_moduli=8, out=read_only)


@pytest.mark.parametrize("out", [False, True])
def test_a_wrong_guess_is_launched_again(cuda, out):
    rng, last = np.random.default_rng(0), None
    fewest, more = fresh_pair(0.0)[0], rng.standard_normal((40, 40)) ** 3 + 0j
    for x in (fewest, more, more, fewest, fresh_pair(4.0)[0], fewest):
        options = {"out": np.empty((40, 40), complex)} if out else {}
        cuda.device.launched.clear()
        assert same_bits(td.gemm(x, x, **options), td.gemm(x, x, engine="cpu"))
        products = cuda.device.launched.count("products_mma")
        own = td.explain(td.gemm, x, x).num_moduli
        # Nothing is guessed into an array of the user's.
        wrong = last not in (None, own) and not out
        assert products == (2 if wrong else 1) or last is None
        last = own


def test_shifts_and_native_products_are_no_guesses(cuda):
    """The moduli may be those of the last product, and the product another one."""
    (A, B), k = fresh_pair(0.0), np.linspace(-1, 1, 40)
    twisted = A * 1e9**k, (B.T * 1e-9**k).T
    for matrices in ((A, B), twisted, (A, B)):
        launches(cuda, td.gemm, *matrices)


class TestDeferred:
    """Guesses keep to the order of the stream."""

    @pytest.fixture(params=range(3))
    def engine(self, host_kernels, request):
        return deferred_engine(host_kernels, 90, request.param)

    def test_wrong_ones_leave_nothing(self, cuda):
        for seed, phi in enumerate((0.0, 0.0, 4.0, 4.0, 0.0)):
            A, B = fresh_pair(phi, seed)
            found = td.gemm(A, B)
            cuda.device.synchronize()
            assert same_bits(np.array(found), td.gemm(A, B, engine="cpu"))
