"""Scripts, recipes and guesses: what is kept of a call decides nothing about the next.

That calls of one shape have the CPU's bits is in the contract of routines.
"""

from collections import Counter

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cuda.deferred_device import deferred_engine
from tests.support.cuda.host_device import host_engine
from tests.support.cuda.on_cpu import on_cpu
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.errors import PlanError
from twom_dist.kernels.cuda.scripts import Recorder, Script, Scripts
from twom_dist.moduli import residue_system
from twom_dist.run import recipes, weighed


@pytest.fixture(params=[90, 89], ids=["sm_90", "sm_89"])
def engine(host_kernels, request):
    """A device with scripts of its own; planes are given as they are to one of them."""
    return host_engine(host_kernels, request.param)


def counting(monkeypatch, owner, name):
    """Count the calls of a function, which stays as it is."""
    counts, function = Counter(), getattr(owner, name)

    def count(*given, **options):
        counts[name] += 1
        return function(*given, **options)

    monkeypatch.setattr(owner, name, count)
    return counts


@pytest.fixture
def runs(monkeypatch):
    return counting(monkeypatch, Script, "run")


@pytest.fixture
def posed(monkeypatch):
    return counting(monkeypatch, recipes, "of_arrays")


def assert_as_on_cpu(routine, *given, **options):
    with np.errstate(all="ignore"):
        found = routine(*given, **options)
        assert same_bits(found, on_cpu(routine, *given, **options))


def fresh(seed, m=40, k=33, dtype="complex128"):
    """Make a matrix that lies where no other has lain."""
    found = random_matrix(m, k, dtype, 1.0, seed)
    found[seed % m, 3] = (np.nan, np.inf, 7)[seed % 3]
    return found


CALLS = {
    "gemm": lambda s: (td.gemm, (fresh(s), fresh(s + 1)), {"op_b": "C"}),
    "nan": lambda s: (
        td.gemm,
        (fresh(s), fresh(s + 1), fresh(s + 2, 40, 40)),
        {"op_b": "T", "alpha": float("nan"), "beta": complex("1+nanj")},
    ),
    "herk": lambda s: (td.herk, (fresh(s),), {"uplo": "lower"}),
    "derived": lambda s: (td.herk, (fresh(s, k=400),), {}),
    "equilibrated": lambda s: (
        td.gemm,
        (fresh(s) * 1e9 ** np.linspace(-1, 1, 33), fresh(s + 1)),
        {"op_b": "C", "equilibrate": True},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_second_call_is_a_script_that_launches_the_same(cuda, runs, name):
    launched = []
    for n, seed in enumerate((0, 10, 20)):
        with np.errstate(invalid="ignore"):
            routine, matrices, options = CALLS[name](seed)
        cuda.device.launched.clear()
        assert_as_on_cpu(routine, *matrices, num_moduli=8, **options)
        launched.append(Counter(cuda.device.launched))
        # The looks are scripts, too: without shifts, and with them.
        assert runs["run"] == n * (1 + 2 * (name == "equilibrated"))
    assert launched[0] == launched[1] == launched[2]


def test_what_depends_on_more_than_addresses_has_another_script(cuda, runs):
    """Arrays that were one, other strides and scalars."""
    a, b = fresh(2), fresh(5)
    calls = [
        ((a, a), {}),
        ((a, b), {}),
        ((a, np.asfortranarray(b)), {}),
        ((a, b), {"alpha": 2.0}),
        ((a, b), {"alpha": 2j}),
        ((a[:, :20], b[:, :20]), {}),
        ((a, b, a[:, :1] * np.ones(40)), {"beta": 1}),
    ]
    for _ in range(2):
        for matrices, options in calls:
            assert_as_on_cpu(td.gemm, *matrices, op_b="C", num_moduli=8, **options)
    assert runs["run"] == len(calls)


@pytest.mark.parametrize("options", [{"num_moduli": 8}, {}], ids=["given", "default"])
@pytest.mark.parametrize("op_b", ["N", "C"])
def test_an_array_that_is_another_one_is_so_in_this_call_alone(cuda, options, op_b):
    """A or B, or both, are C in the first call, and others in the next ones."""
    options = {**options, "alpha": 3, "beta": 1}
    a, b, c = (random_matrix(40, 40, "complex128", 0.0, seed) for seed in (1, 2, 3))
    for given in ((a, b, a), (a, b, b), (a, a, a), (a, b, c), (b, a, a), (c, b, a)) * 2:
        assert_as_on_cpu(td.gemm, *given, op_b=op_b, **options)
    for given in ((a, a), (b, c), (c, c), (a, b)) * 2:
        assert_as_on_cpu(td.syrk, *given, **options)


def test_few_scripts_are_kept(monkeypatch):
    monkeypatch.setattr(Scripts, "_MOST", 3)
    scripts = Scripts()
    for n in range(7):
        scripts.keep(n, Script())
        assert scripts.get(n) is not None
    assert [n for n in range(7) if scripts.get(n)] == [6]
    scripts.keep(9, None)
    assert scripts.get(9) is None


def test_what_nobody_knows_leaves_no_script(cuda, runs, monkeypatch):
    """An array that is no operand, and memory beside a result and its slab."""
    from twom_dist.kernels.cuda import engine

    multiply = engine.multiply_at_once
    copying = lambda device, x, *given: multiply(device, x.copy(), *given)  # noqa: E731
    monkeypatch.setattr(engine, "multiply_at_once", copying)
    for _ in range(2):
        td.gemm(fresh(2), fresh(5), op_b="C", num_moduli=8)
    assert not runs
    recorder = Recorder(cuda.device, {})
    for made in (True, False):
        recorder.empty((3, 4), np.int8)
        assert (recorder.script is not None) == made


# --- recipes: calls that are posed once ---------------------------------------------


def test_the_same_call_is_posed_once(cuda, posed):
    product = td.Product((40, 33), (40, 33), op_b="C", num_moduli=8)
    for seed in (1, 5, 9):
        a, b, out = fresh(seed), fresh(seed + 1), np.empty((40, 40), complex)
        assert_as_on_cpu(td.gemm, a, b, op_b="C", num_moduli=8)
        with np.errstate(all="ignore"):
            assert td.gemm(a, b, op_b="C", num_moduli=8, out=out) is out
            assert same_bits(product(a, b), out)
    assert posed["of_arrays"] <= 3 + 2  # those of the CPU, with and without out


def test_what_a_recipe_cannot_know_is_posed_again(cuda, posed):
    a, b = (random_matrix(40, 33, "complex128", 1.0, seed) for seed in (1, 2))
    before = len(recipes._recipes)
    for _ in range(2):
        for options in ({"alpha": np.array(2.0)}, {"equilibrate": True}):
            td.gemm(a, b, op_b="C", num_moduli=8, **options)
    td.gemm(a.astype("c8"), b, op_b="C", num_moduli=8)  # is converted
    td.gemm(a, b, op_b="C", num_moduli=8, out=np.empty((40, 40), complex).T)
    assert posed["of_arrays"] == 6
    assert len(recipes._recipes) == before


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


@pytest.mark.parametrize(
    ("name", "value"), [("workspace-bytes", "1 MiB"), ("winograd-levels", 0)]
)
def test_settings_are_heeded_in_the_next_call(cuda, posed, name, value):
    a = np.ones((40, 40), complex)
    for own in (None, value, None):
        with dask.config.set({f"twom-dist.{name}": own}):
            td.gemm(a, a, num_moduli=8)
    assert posed["of_arrays"] == 2


def test_zeros_of_both_signs_scale_alike(cuda):
    a = -np.ones((4, 4))
    for factor in (-0.0, 0.0, complex(0.0, -0.0), -0.0):
        assert not np.signbit(td.gemm(a + 0j, a, alpha=factor, num_moduli=8).real).any()


# --- guesses of moduli --------------------------------------------------------------


def pair(phi, seed=1):
    return tuple(random_matrix(40, 40, "complex128", phi, seed + x) for x in (0, 9))


def launches(cuda, *matrices, **options):
    cuda.device.launched.clear()
    assert_as_on_cpu(td.gemm, *matrices, **options)
    return cuda.device.launched[:]


def test_a_right_guess_is_launched_before_the_wait_and_not_again(cuda):
    launches(cuda, *pair(0.0, 3))
    first, second = (launches(cuda, *pair(0.0, seed)) for seed in (1, 5))
    assert Counter(first) == Counter(second)
    assert first.index("fetch") < first.index("products_mma")
    # The stand-in copies as it is asked to, before what is done meanwhile.
    own = ["scale_and_encode", "products_mma", "decode", "fill_product"]
    assert second[second.index("fetch") + 1 :][:4] == own


@pytest.mark.parametrize("out", [False, True])
def test_a_wrong_guess_is_launched_again(cuda, out):
    rng, last = np.random.default_rng(0), None
    fewest, more = pair(0.0)[0], rng.standard_normal((40, 40)) ** 3 + 0j
    for x in (fewest, more, more, fewest, pair(4.0)[0], fewest):
        options = {"out": np.empty((40, 40), complex)} if out else {}
        cuda.device.launched.clear()
        assert same_bits(td.gemm(x, x, **options), on_cpu(td.gemm, x, x))
        products = cuda.device.launched.count("products_mma")
        own = td.explain(td.gemm, x, x).num_moduli
        # Nothing is guessed into an array of the user's.
        wrong = last not in (None, own) and not out
        assert products == (2 if wrong else 1) or last is None
        last = own


def test_large_products_wait_for_what_decides(cuda, monkeypatch):
    monkeypatch.setattr(weighed, "BELOW", 40)
    for phi in (0.0, 0.0, 4.0):
        launched = launches(cuda, *pair(phi))
        assert launched.count("products_mma") == 1
        assert launched.index("fetch") < launched.index("products_mma")
    assert launched[-5:-3] == ["multiply_octaves", "scale_and_encode"]


def test_shifts_and_native_products_are_no_guesses(cuda):
    """The moduli may be those of the last product, and the product another one."""
    (A, B), k = pair(0.0), np.linspace(-1, 1, 40)
    twisted = A * 1e9**k, (B.T * 1e-9**k).T
    for matrices in ((A, B), twisted, (A, B)):
        assert_as_on_cpu(td.gemm, *matrices)


def test_few_kinds_are_remembered(cuda, monkeypatch):
    monkeypatch.setattr(recipes, "_MOST", 3)
    A, B = pair(0.0)
    for n in range(1, 9):
        td.gemm(A[:n], B)
        assert 1 <= len(recipes._recipes) <= 3


def test_a_guess_without_room_or_of_more_than_one_tile_is_left(cuda, monkeypatch):
    A, B = pair(0.0)
    expected, compute, answers = td.gemm(A, B), cuda.multiply_at_once, iter([print])
    recipes._recipes.clear()
    with monkeypatch.context() as own:
        own.setattr(weighed, "_find_multiply", lambda *_: next(answers, None))
        for _ in range(3):
            assert same_bits(td.gemm(A, B), expected)
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


class TestDeferred:
    """Guesses keep to the order of the stream."""

    @pytest.fixture(params=range(3))
    def engine(self, host_kernels, request):
        return deferred_engine(host_kernels, 90, request.param)

    def test_wrong_ones_leave_nothing(self, cuda):
        wrong = residue_system("2m", 12)
        for seed in range(4):
            A, B = pair((0.0, 4.0)[seed % 2], seed)
            if seed == 2:
                for recipe in recipes._recipes.values():
                    recipe._last = wrong, lambda x, y, c: np.zeros((40, 40), complex)
            found = td.gemm(A, B)
            cuda.device.synchronize()
            assert same_bits(np.array(found), on_cpu(td.gemm, A, B))
