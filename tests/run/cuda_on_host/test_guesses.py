"""Guesses of moduli: whatever was guessed, the product is the one that was decided."""

from collections import Counter

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cuda.deferred_device import deferred_engine
from tests.support.cuda.host_device import host_engine
from tests.support.cuda.on_cpu import on_cpu
from tests.support.strategies import random_matrix
from twom_dist.moduli import residue_system
from twom_dist.run import recipes, weighed


@pytest.fixture
def engine(host_kernels):
    """A device with a kernel for whole products."""
    return host_engine(host_kernels, 90)


def pair(phi, seed=1):
    return tuple(random_matrix(40, 40, "complex128", phi, seed + x) for x in (0, 9))


def launches(cuda, *matrices, **options):
    cuda.device.launched.clear()
    found = td.gemm(*matrices, **options)
    assert same_bits(found, on_cpu(td.gemm, *matrices, **options))
    return cuda.device.launched[:]


def test_a_right_guess_is_launched_before_the_wait_and_not_again(cuda):
    launches(cuda, *pair(0.0, 3))
    first, second = (launches(cuda, *pair(0.0, seed)) for seed in (1, 5))
    assert Counter(first) == Counter(second)
    assert first.index("fetch") < first.index("products_mma")
    own = "scale_and_encode", "products_mma", "decode", "fill_product"
    # The stand-in copies as it is asked to, before what is done meanwhile.
    assert second[second.index("fetch") + 1 :][:4] == [*own]


@pytest.mark.parametrize("out", [False, True])
def test_a_wrong_guess_is_launched_again(cuda, out):
    rng = np.random.default_rng(0)
    fewest, more = pair(0.0)[0], rng.standard_normal((40, 40)) ** 3 + 0j
    counts = [td.explain(td.gemm, x, x).num_moduli for x in (fewest, more)]
    assert counts[0] < counts[1]
    last = None
    for x in (fewest, more, more, fewest, pair(4.0)[0], fewest):
        options = {"out": np.empty((40, 40), complex)} if out else {}
        cuda.device.launched.clear()
        found = td.gemm(x, x, **options)
        assert same_bits(found, on_cpu(td.gemm, x, x))
        products = cuda.device.launched.count("products_mma")
        own = td.explain(td.gemm, x, x)
        wrong = last is not None and own.num_moduli != last
        # Nothing is guessed into an array of the user's.
        assert products == (2 if wrong and not out else 1) or last is None
        last = own.num_moduli


def test_large_products_wait_for_what_decides(cuda, monkeypatch):
    monkeypatch.setattr(weighed, "BELOW", 40)
    for phi in (0.0, 0.0, 4.0):
        launched = launches(cuda, *pair(phi))
        assert launched.count("products_mma") == 1
        assert launched.index("fetch") < launched.index("products_mma")
    assert launched[-5:-3] == ["multiply_octaves", "scale_and_encode"]


def test_shifts_and_native_products_are_no_guesses(cuda):
    """The moduli may be those of the last product, and the product another one."""
    k = np.linspace(-1, 1, 40)
    A, B = pair(0.0)
    twisted = A * 1e9**k, (B.T * 1e-9**k).T
    for matrices in ((A, B), twisted, (A, B)):
        found = td.gemm(*matrices)
        assert same_bits(found, on_cpu(td.gemm, *matrices))


def test_options_and_shapes_are_kinds_of_their_own(cuda):
    A, B = pair(0.0)
    for _ in range(2):
        for call in (
            lambda: td.gemm(A, B),
            lambda: td.gemm(A, B, alpha=2j),
            lambda: td.gemm(A, B, A, beta=-1),
            lambda: td.herk(A),
            lambda: td.syrk(A, op="T"),
            lambda: td.gemm(A, B, accuracy="normwise"),
            lambda: td.gemm(A[:20], B),
        ):
            assert same_bits(call(), on_cpu(call))


def test_many_kinds_are_not_remembered(cuda, monkeypatch):
    monkeypatch.setattr(recipes, "_MOST", 3)
    A, B = pair(0.0)
    for n in range(1, 9):
        td.gemm(A[:n], B)
        assert 1 <= len(recipes._recipes) <= 3


def test_moduli_that_take_more_than_one_tile_are_planned(cuda, monkeypatch):
    A, B = pair(0.0)
    expected, answers = td.gemm(A, B), iter([print])  # for those that are expected
    recipes._recipes.clear()
    monkeypatch.setattr(weighed, "_find_multiply", lambda *_: next(answers, None))
    for _ in range(3):
        assert same_bits(td.gemm(A, B), expected)
    assert len(recipes._recipes) == 1


def test_a_guess_without_room_is_left(cuda, monkeypatch):
    A, B = pair(0.0)
    expected, compute = td.gemm(A, B), cuda.multiply_at_once
    tried = []

    def refuse(*given, **options):
        tried.append(len(tried))
        if len(tried) == 1:
            raise MemoryError
        return compute(*given, **options)

    recipes._recipes.clear()
    monkeypatch.setattr(cuda, "multiply_at_once", refuse)
    assert same_bits(td.gemm(A, B), expected)
    assert len(tried) == 2


@pytest.mark.parametrize("seed", range(3))
def test_guesses_keep_to_the_order_of_the_stream(host_kernels, monkeypatch, seed):
    from twom_dist.kernels import registry
    from twom_dist.tiles import spec

    engine, load = deferred_engine(host_kernels, 90, seed), registry.get_engine
    monkeypatch.setattr(
        spec, "get_engine", lambda name: engine if name == "cuda" else load(name)
    )
    monkeypatch.setitem(registry._OF_FAMILY, "numpy", "cuda")
    wrong = residue_system("2m", 12)
    for seed in range(4):
        A, B = pair((0.0, 4.0)[seed % 2], seed)
        if seed == 2:
            for recipe in recipes._recipes.values():
                recipe._last = wrong, lambda x, y, c: np.zeros((40, 40), complex)
        found = td.gemm(A, B)
        engine.device.synchronize()
        assert same_bits(np.array(found), on_cpu(td.gemm, A, B))
