"""Parts of k: whoever multiplies them, and in whatever order they are added."""

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases, sample
from tests.support.splits import (
    add_at_random,
    force_split,
    look_in_strips,
    order_at_random,
)
from tests.support.stages import count_stages
from tests.support.strategies import ENGINE_NAMES, random_matrix, spread_pair
from twom_dist.tiles.grid import cut_inner

N, K = 30, 70
CHUNKS = {"of A": ((13, 17), (9, 9, 1, 20, 11, 20)), "of k": ((30,), (7,) * 10)}
PANEL, PRODUCT, REDUCE = "twom-panel", "twom-product", "twom-reduce"


def computed(lazy):
    return dask.compute(lazy, scheduler="sync")[0]


@cases("split", [(1, 2), (3, 3), (10, 1)])
@cases("chunks", CHUNKS.values())
@pytest.mark.parametrize("routine", ["gemm", "herk", "syrk", "her2k", "syr2k"])
@sample("method", ["2m", "3m", "hybrid", "eisenstein"], ["2m", "eisenstein"])
def test_every_split_and_every_tree_gives_the_same_bits(
    routine, method, split, chunks, monkeypatch
):
    function = getattr(td, routine)
    a, b = (random_matrix(N, K, "complex128", 1.0, seed) for seed in (1, 2))
    b[3, 4], a[7, 60] = np.nan, np.inf
    given = [a] if routine in ("herk", "syrk") else [a, b]
    options = {"method": method, "alpha": 2 - 1j if routine == "gemm" else 2}
    options |= {"op_b": "C"} if routine == "gemm" else {"uplo": "lower"}
    expected = function(*given, **options)
    force_split(monkeypatch, *split)
    for seed in range(2):
        # First along the tree as it is planned.
        if seed:
            add_at_random(monkeypatch, seed)
            look_in_strips(monkeypatch, seed)
            order_at_random(monkeypatch, seed)
        lazy = function(*(da.from_array(x, chunks=chunks) for x in given), **options)
        stages = count_stages(lazy)
        assert stages[REDUCE] >= stages[PRODUCT]
        assert same_bits(computed(lazy), expected)
    monkeypatch.undo()


@cases("split", [(2, 1), (3, 3)])
@cases("dtype", ["float32", "float64", "complex64", "complex128"])
def test_every_dtype_with_shifts_and_with_c(dtype, split, monkeypatch):
    a, b = spread_pair(N, N, K, 3, dtype)
    c = random_matrix(N, N, dtype, 1.0, 3)
    expected = td.gemm(a, b, c, beta=-0.5), td.gemm(a, b, accuracy="componentwise")
    force_split(monkeypatch, *split)
    look_in_strips(monkeypatch, 1)
    order_at_random(monkeypatch, 1)
    a, b = (da.from_array(x, chunks=17) for x in (a, b))
    found = td.gemm(a, b, c, beta=-0.5), td.gemm(a, b, accuracy="componentwise")
    for lazy, eager in zip(found, expected, strict=True):
        assert same_bits(computed(lazy), eager)
    monkeypatch.undo()


@cases("split", [(2, 1), (3, 3)])
def test_integers_and_twice_the_digits(split, monkeypatch):
    rng = np.random.default_rng(1)
    a = rng.integers(-100, 100, (N, K)).astype(np.int8)
    z = random_matrix(N, K, "complex128", 1.0, 1)
    pairs = rng.integers(-100, 100, (N, K, 2)).astype(np.int16)

    def products(a, z, pairs, stack):
        return (
            td.integers.gemm(a, a, op_b="T"),
            td.integers.syr2k(a, a[::-1]),
            td.integers.herk(pairs, pairs=True),
            td.integers.matmul(a.astype(int) << 40, a.T, dtype=object),
            stack(td.twofold.gemm(z, z, op_b="C")),
            stack(td.twofold.her2k(z, z)),
        )

    expected = products(a, z, pairs, np.array)
    force_split(monkeypatch, *split)
    order_at_random(monkeypatch, sum(split))
    lazily = (da.from_array(t, chunks=(17, 11, 2)[: t.ndim]) for t in (a, z, pairs))
    for lazy, eager in zip(products(*lazily, da.stack), expected, strict=True):
        assert (computed(lazy) == eager).all()
    monkeypatch.undo()


@cases("engine", ENGINE_NAMES)
@cases("k", [0, 11])
def test_no_task_writes_to_what_it_is_given(k, engine, monkeypatch):
    """Another worker receives it read-only; and a task may run again."""
    a, given = random_matrix(N, N + k, "complex128", 1.0, 1), []

    def keep(_, value, *__):
        sums = [x.values for x in value if hasattr(x, "values")]
        given.extend((x, x.copy()) for x in sums)
        for x in sums:
            x.flags.writeable = False

    force_split(monkeypatch, 1, 1)
    x = da.from_array(a, chunks=((N,), (13, 0, 17, k)))
    options = {"op_b": "C", "num_moduli": 3, "engine": engine}
    with dask.config.set({"twom-dist.panel-bytes": 1}), Callback(posttask=keep):
        found = computed(td.gemm(x, x, **options))
    assert same_bits(found, td.gemm(a, a, **options))
    assert len(given) == 3
    monkeypatch.undo()
    assert all(same_bits(*both) for both in given)


def test_a_product_that_turns_native_is_added_in_doubles(monkeypatch):
    tiny = 2.0**-400
    a, b = np.array([[1.0, tiny], [1, 1]]), np.array([[tiny, 1.0], [1, 1]])
    force_split(monkeypatch, 2, 1)
    lazy = td.gemm(*(da.from_array(x, chunks=1) for x in (a, b)), equilibrate=False)
    assert REDUCE in count_stages(lazy)
    assert same_bits(computed(lazy), a @ b)


def test_cells_beside_one_another_end_on_different_layers(monkeypatch):
    force_split(monkeypatch, 2, 1)
    a = da.zeros((40, 40), chunks=20)
    product = td.gemm(a, a, num_moduli=5)
    graph = dict(product.__dask_graph__())
    for i, j in np.ndindex(2, 2):
        needed = graph[product.name, i, j].dependencies
        layers = {x[3] for x in needed if x[0].startswith(REDUCE)}
        assert layers == {(i + j) % 2}


@cases("parts", [1, 2, 3])
@cases("layers", [1, 2, 5, 100])
@cases("count", [1, 2, 7, 40])
@cases("most", [1, 3, 1000])
def test_layers_parts_and_panels_are_even_and_whole(count, layers, parts, most):
    found = cut_inner(count, layers, parts, most)
    panels = [panel for layer in found for part in layer for panel in part]
    assert [x for lo, hi in panels for x in range(lo, hi)] == [*range(count)]
    assert len(found) <= min(layers, count)
    lengths = [sum(hi - lo for part in x for lo, hi in part) for x in found]
    assert max(lengths) == -(-count // layers)
    assert max(lengths) - min(lengths) <= 1 + max(lengths) // 2
    assert all(len(layer) <= parts for layer in found)
    assert max(hi - lo for lo, hi in panels) <= most
