"""Scripts of products: the bits of the first call, wherever arrays lie."""

from collections import Counter

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cuda.host_device import host_engine
from tests.support.cuda.on_cpu import on_cpu
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.errors import PlanError
from twom_dist.kernels.cuda.scripts import Recorder, Script, Scripts
from twom_dist.run import recipes


@pytest.fixture(params=[90, 89], ids=["sm_90", "sm_89"])
def engine(host_kernels, request):
    """A device with scripts of its own; planes are given as they are to one of them."""
    return host_engine(host_kernels, request.param)


@pytest.fixture
def runs(monkeypatch):
    """Count the runs of scripts."""
    counts = Counter()
    run = Script.run

    def count(script, *given):
        counts["run"] += 1
        return run(script, *given)

    monkeypatch.setattr(Script, "run", count)
    return counts


def fresh(seed, m=40, k=33, dtype="complex128"):
    """Make a matrix that lies where no other has lain."""
    found = random_matrix(m, k, dtype, 1.0, seed)
    found[seed % m, 3] = (np.nan, np.inf, 7)[seed % 3]
    return found


CALLS = {
    "gemm": lambda s: (td.gemm, (fresh(s), fresh(s + 1)), {"op_b": "C"}),
    "across": lambda s: (td.gemm, (fresh(s).T, fresh(s + 1)), {"op_a": "N"}),
    "scaled": lambda s: (
        td.gemm,
        (fresh(s), fresh(s + 1), fresh(s + 2, 40, 40)),
        {"op_b": "T", "alpha": 2j, "beta": -0.5},
    ),
    "nan": lambda s: (
        td.gemm,
        (fresh(s), fresh(s + 1), fresh(s + 2, 40, 40)),
        {"op_b": "T", "alpha": float("nan"), "beta": complex("1+nanj")},
    ),
    "real": lambda s: (td.gemm, (fresh(s, dtype="float64"),) * 2, {"op_b": "T"}),
    "herk": lambda s: (td.herk, (fresh(s),), {"uplo": "lower"}),
    "derived": lambda s: (td.herk, (fresh(s, k=400),), {}),
    "syrk": lambda s: (td.syrk, (fresh(s, dtype="complex64"),), {"alpha": 3}),
    "equilibrated": lambda s: (
        td.gemm,
        (fresh(s) * 1e9 ** np.linspace(-1, 1, 33), fresh(s + 1)),
        {"op_b": "C", "equilibrate": True},
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("given", [False, True], ids=["", "out"])
def test_the_second_call_is_a_script_with_the_bits_of_a_first_one(
    cuda, runs, name, given
):
    launched, kept = [], set()
    for n, seed in enumerate((0, 10, 20)):
        with np.errstate(invalid="ignore"):
            routine, matrices, options = CALLS[name](seed)
        options |= {"num_moduli": 8}
        expected = on_cpu(routine, *matrices, **options)
        out = np.empty_like(expected) if given else None
        cuda.device.launched.clear()
        cuda.device.allocated.clear()
        with np.errstate(all="ignore"):
            found = routine(*matrices, **options, out=out)
        assert same_bits(found, expected)
        assert out is None or found is out
        # The look is a script, too.
        assert runs["run"] == n * (1 + (name == "equilibrated"))
        launched.append((Counter(cuda.device.launched), len(cuda.device.allocated)))
        kept.add(len(recipes._recipes))
    assert len(kept) == 1
    assert launched[0] == launched[1] == launched[2]


def test_what_depends_on_more_than_addresses_has_another_script(cuda, runs):
    """Arrays that were one, other strides and scalars, signs of zero."""
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
            options = {"op_b": "C", "num_moduli": 8, **options}
            expected = on_cpu(td.gemm, *matrices, **options)
            with np.errstate(all="ignore"):
                found = td.gemm(*matrices, **options)
            assert same_bits(found, expected)
    assert runs["run"] == len(calls)


@pytest.mark.parametrize("options", [{"num_moduli": 8}, {}], ids=["given", "default"])
@pytest.mark.parametrize("op_b", ["N", "C"])
def test_an_array_that_is_another_one_is_so_in_this_call_alone(cuda, options, op_b):
    """A or B, or both, are C in the first call, and others in the next ones."""
    options = {**options, "op_b": op_b, "alpha": 3, "beta": 1}
    a, b, c = (random_matrix(40, 40, "complex128", 0.0, seed) for seed in (1, 2, 3))
    for given in ((a, b, a), (a, b, b), (a, a, a), (a, b, c), (b, a, a), (c, b, a)) * 2:
        found = td.gemm(*given, **options)
        assert same_bits(found, on_cpu(td.gemm, *given, **options))
    del options["op_b"]
    for given in ((a, a), (b, c), (c, c), (a, b)) * 2:
        found = td.syrk(*given, **options)
        assert same_bits(found, on_cpu(td.syrk, *given, **options))


def test_scripts_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr(Scripts, "_MOST", 3)
    scripts = Scripts()
    for n in range(7):
        scripts.keep(n, Script())
        assert scripts.get(n) is not None
    assert [n for n in range(7) if scripts.get(n)] == [6]
    scripts.keep(9, None)
    assert scripts.get(9) is None


def test_a_launch_of_an_array_that_nobody_knows_leaves_no_script(cuda, runs):
    from twom_dist.kernels.cuda import engine

    multiply = engine.multiply_at_once

    def copy(device, x, *given):
        return multiply(device, x.copy(), *given)

    try:
        engine.multiply_at_once = copy
        for _ in range(2):
            td.gemm(fresh(2), fresh(5), op_b="C", num_moduli=8)
    finally:
        engine.multiply_at_once = multiply
    assert not runs


def test_memory_beside_a_result_and_its_slab_leaves_no_script(engine):
    recorder = Recorder(engine.device, {})
    for made in (True, False):
        recorder.empty((3, 4), np.int8)
        assert (recorder.script is not None) == made


# --- recipes: calls that are posed once ---------------------------------------------


@pytest.fixture
def posed(monkeypatch):
    """Count the problems that are posed."""
    counts = Counter()
    pose = recipes.of_arrays

    def count(*given):
        counts["posed"] += 1
        return pose(*given)

    monkeypatch.setattr(recipes, "of_arrays", count)
    return counts


def test_the_same_call_is_posed_once(cuda, posed):
    product = td.Product((40, 33), (40, 33), op_b="C", num_moduli=8)
    for seed in (1, 5, 9):
        a, b = fresh(seed), fresh(seed + 1)
        expected = on_cpu(td.gemm, a, b, op_b="C", num_moduli=8)
        with np.errstate(all="ignore"):
            out = np.empty((40, 40), complex)
            assert same_bits(td.gemm(a, b, op_b="C", num_moduli=8), expected)
            assert td.gemm(a, b, op_b="C", num_moduli=8, out=out) is out
            assert same_bits(out, expected)
            assert same_bits(product(a, b), expected)
    assert posed["posed"] <= 3 + 2  # those of the CPU, with and without out


def test_what_a_recipe_cannot_know_is_posed_again(cuda, posed):
    a, b = (random_matrix(40, 33, "complex128", 1.0, seed) for seed in (1, 2))
    before = len(recipes._recipes)
    for _ in range(2):
        for options in (
            {"num_moduli": 8, "alpha": np.array(2.0)},
            {"num_moduli": 8, "equilibrate": True},
        ):
            td.gemm(a, b, op_b="C", **options)
    td.gemm(a.astype("c8"), b, op_b="C", num_moduli=8)  # is converted
    td.gemm(a, b, op_b="C", num_moduli=8, out=np.empty((40, 40), complex).T)
    assert posed["posed"] == 6
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


@pytest.mark.parametrize("name", ["workspace-bytes", "winograd-levels"])
def test_settings_are_heeded_in_the_next_call(cuda, posed, name):
    a = np.ones((40, 40), complex)
    for value in (None, {"workspace-bytes": "1 MiB", "winograd-levels": 0}[name], None):
        with dask.config.set({f"twom-dist.{name}": value}):
            td.gemm(a, a, num_moduli=8)
    assert posed["posed"] == 2


def test_zeros_of_both_signs_scale_alike(cuda):
    a = -np.ones((4, 4))
    for engine in (td.gemm, lambda *x, **more: on_cpu(td.gemm, *x, **more)):
        for factor in (-0.0, 0.0, complex(0.0, -0.0), -0.0):
            found = engine(a + 0j, a, alpha=factor, num_moduli=8)
            assert not np.signbit(found.real).any()
