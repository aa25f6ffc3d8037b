"""Products of dask arrays: lazy, ordinary arrays, and tiles that are encoded once."""

import gc
from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.stages import count_stages
from tests.support.strategies import random_matrix
from tests.support.tilings import TILINGS, K, M, N
from twom_dist.errors import PlanError
from twom_dist.tiles.cache import encoded_tiles
from twom_dist.tiles.task_spec import Alias

PRODUCT, PANEL = "twom-product", "twom-panel"
OPTIONS = {"alpha": 0.5 - 2j, "beta": -1.5}


@pytest.fixture(scope="module")
def matrices():
    return tuple(
        random_matrix(*shape, seed=s)
        for s, shape in enumerate([(M, K), (K, N), (M, N)])
    )


def chunked(matrices, tiling):
    m, n, k = TILINGS[tiling]
    chunks = ((m, k), (k, n), (m, n))
    return [da.from_array(x, chunks=c) for x, c in zip(matrices, chunks, strict=True)]


@pytest.fixture
def one_thread(monkeypatch):
    """On machines of any size few tiles are shared by no threads along k."""
    monkeypatch.setattr("twom_dist.run.client.CPU_COUNT", 1)


# --- the graph --------------------------------------------------------------------


@cases("panel_bytes", [1, "4 kB", "1 GiB"])
@cases("tiling", TILINGS)
def test_tiles_and_panels(panel_bytes, tiling, matrices, one_thread):
    """One product task for each tile of C; NaN and Inf spoil their rows and columns."""
    A, B, C = (x.copy() for x in matrices)
    A[3, 2], A[3, 30], A[22, 17] = np.inf, -np.inf, np.nan
    B[0, 5], B[16, 18], C[7, 7] = complex(0, np.inf), np.nan, np.nan
    expected = td.gemm(A, B, C, beta=1)
    bad = np.zeros((M, N), bool)
    bad[[3, 22]], bad[:, [5, 18]], bad[7, 7] = True, True, True
    assert (np.isfinite(expected) == ~bad).all()
    a, b, c = chunked((A, B, C), tiling)
    m, n, k = map(len, TILINGS[tiling])
    with dask.config.set({"twom-dist.panel-bytes": panel_bytes}):
        given, found = td.gemm(a, b, c, beta=1, num_moduli=16), td.gemm(a, b, c, beta=1)
    stages = count_stages(given)
    assert (stages[PRODUCT], stages["twom-exponents"]) == (m * n, m + n)
    assert stages.get(PANEL, 0) <= (k - 1) * m * n
    assert (panel_bytes == 1) <= (stages.get(PANEL, 0) == (k - 1) * m * n)
    looks = count_stages(found)
    assert (looks[PRODUCT], looks["twom-spec"]) == (m * n, 2)
    if panel_bytes == "1 GiB":
        # One thread measures whole rows where their exponents are chosen.
        assert "twom-sums" not in stages
        assert looks["twom-sums"] == (m + n) * 2
        assert (looks["twom-octaves"], looks["twom-pairs"]) == (m + n, m * n)
    assert set(count_stages(td.gemm(a, b, method="blas"))) == {PRODUCT}
    found = found.compute(scheduler="sync")
    assert np.array_equal(found, expected, equal_nan=True)
    assert same_bits(found[~bad], expected[~bad])


@cases(("rows", "steps"), [(23, 2), (12, 3)])
def test_unaligned_chunks_are_cut_like_the_larger_operand(
    rows, steps, matrices, one_thread
):
    A, B, C = matrices[0][:rows], matrices[1], matrices[2][:rows]
    expected = td.gemm(A, B, C, **OPTIONS)
    A = da.from_array(A, chunks=((11, rows - 11), (9, 22)))
    B = da.from_array(B, chunks=((2, 20, 9), (19,)))
    found = td.gemm(A, B, da.from_array(C, chunks=(5, 5)), **OPTIONS)
    assert found.chunks == ((11, rows - 11), (19,))
    # Before and after columns are shifted.
    assert count_stages(found)["twom-sums"] == 2 * (2 + 1)
    assert count_stages(found)["twom-shifts"] == steps + 1
    assert same_bits(found.compute(scheduler="sync"), expected)


@cases(
    ("a", "b"),
    [("float32", "complex128"), ("int16", "float32"), ("complex64", "float64")],
)
def test_results_are_ordinary_dask_arrays(a, b, matrices):
    A, B = (20 * x.real for x in matrices[:2])
    A, B = A.astype(a), B.astype(b)
    expected = td.gemm(A, B)
    left, right, _ = chunked((A, B, matrices[2]), "even")
    found = td.gemm(left, right)
    assert type(found._meta) is np.ndarray
    assert found.dtype == found._meta.dtype == expected.dtype
    assert same_bits(found[3:9, [1, 17]].compute(), expected[3:9, [1, 17]])
    assert np.allclose(found.sum().compute(), expected.sum())
    assert same_bits(found.persist().compute(), expected)


def test_nothing_is_computed_while_the_graph_is_built():
    def fail(*args, **kwargs):
        raise RuntimeError("this was computed")

    meta = np.empty((0, 0), "complex128")
    A, B, C = (
        da.zeros((20, 20), dtype=complex, chunks=c).map_blocks(fail, meta=meta)
        for c in ((7, 5), (4, 20), (6, 6))
    )
    with dask.config.set(scheduler=fail):
        found = td.gemm(A, B, C, alpha=2, beta=1j, op_a="T")
        found = td.syr2k(td.gemm(found, np.eye(20)), C)
        td.herk(found), td.plan(td.gemm, A, B, op_a="T")
        repr(found)
    with pytest.raises(RuntimeError, match="this was computed"):
        found.compute(scheduler="sync")


def test_names_follow_from_what_defines_the_product(matrices):
    A, B, C = chunked(matrices, "even")
    name = td.gemm(A, B, C, beta=1).name
    assert name.startswith(f"{PRODUCT}-")
    assert td.gemm(A, B, C, beta=1).name == name
    others = [
        td.gemm(A, B).name,
        td.gemm(A, B, C, beta=2).name,
        td.gemm(A, B, C, beta=1, num_moduli=15).name,
        td.gemm(A + 0, B, C, beta=1).name,
        td.gemm(A.rechunk({0: 23}), B, C, beta=1).name,
    ]
    assert len({name, *others}) == 6


def test_tasks_write_to_nothing_that_dask_holds(matrices):
    A, B, C = chunked(matrices, "even")
    with dask.config.set({"twom-dist.panel-bytes": 1}):
        found = td.gemm(A, B, C, beta=1)
    graph = dict(found.__dask_graph__())
    panels = [key for key in graph if key[0].startswith(PANEL) and key[1:3] == (0, 0)]
    alone = [dask.get(graph, key)[0].values.copy() for key in panels]
    *together, _ = dask.get(graph, [*panels, (found.name, 0, 0)])
    for values, (accumulator,) in zip(alone, together, strict=True):
        assert same_bits(accumulator.values, values)


@pytest.mark.parametrize(
    ("threads", "by_default", "given"),
    [(2, (168, 203), (55, 120)), (16, (352, 387), (104, 204))],
)
def test_a_slice_looks_at_everything_unless_moduli_are_given(
    monkeypatch, threads, by_default, given
):
    """The figures of docs/scaling-out.md."""

    def count(x):
        tasks = dict(dask.optimize(x)[0].__dask_graph__())
        kinds = [type(task) for task in tasks.values()]
        names = Counter(str(key).split("-")[1] for key in tasks)
        assert names["product"] == len(x.chunks[0]) * len(x.chunks[1])
        return sum(kind is not Alias for kind in kinds)

    monkeypatch.setattr("twom_dist.run.client.CPU_COUNT", threads)
    a, b = (da.random.random((600, 600), chunks=100) for _ in range(2))
    products = td.gemm(a, b), td.gemm(a, b, num_moduli=16)
    found = [(count(c[:100]), count(c)) for c in products]
    assert found == [by_default, given]


# --- encoded tiles ----------------------------------------------------------------


@cases("scheduler", ["sync", "threads"])
@cases(("panel_bytes", "budget"), [(1, "1 MB"), ("1 GiB", "1 MB"), (1, 20_000), (1, 0)])
def test_each_tile_is_encoded_once_within_the_budget(
    scheduler, panel_bytes, budget, matrices
):
    A, B, C = chunked(matrices, "even")
    m, n, k = map(len, TILINGS["even"])
    encoded_tiles.clear()
    sizes = {"twom-dist.panel-bytes": panel_bytes, "twom-dist.cache-bytes": budget}
    with dask.config.set(sizes):
        found = td.gemm(A, B, C, **OPTIONS).compute(scheduler=scheduler)
        assert encoded_tiles.nbytes <= dask.utils.parse_bytes(budget)
    assert same_bits(found, td.gemm(*matrices, **OPTIONS))
    counters = encoded_tiles.counters
    if budget == 0:  # nobody asks it
        assert counters.encoded == counters.reused == 0
    else:
        assert counters.encoded + counters.reused == 2 * m * n * k
    if budget == "1 MB":
        assert counters.encoded == m * k + k * n
    del A, B, C, found
    gc.collect()
    assert (len(encoded_tiles), encoded_tiles.nbytes) == (0, 0)


def test_a_cached_tile_serves_only_what_it_was_encoded_for(engine_name):
    """One array lives on; products with it differ in each part of a cache key."""
    x = random_matrix(9, 13)
    A = da.from_array(x, chunks=(4, 6)).persist(scheduler="sync")
    both = (A, x), (da.concatenate([A, 4 * A], axis=1), np.hstack([x, 4 * x]))
    for options in (
        {"num_moduli": 16},
        {"num_moduli": 15},
        {"method": "3m", "num_moduli": 15},
    ):
        for op in "TC":
            for lazy, array in both:
                expected = td.gemm(array, array, op_b=op, **options)
                found = td.gemm(lazy, lazy, op_b=op, engine=engine_name, **options)
                assert same_bits(found.compute(scheduler="sync"), expected)


# --- settings ---------------------------------------------------------------------


@cases(
    "settings",
    [
        {"twom-dist.refuse-memory": "maybe"},
        {"twom-dist.panel-bytes": "1e400"},
        {"twom-dist.cache-bytes": "1e400"},
        *({"twom-dist": x} for x in (None, [], 3, "all")),
    ],
)
def test_a_wrong_setting_is_refused_before_it_counts(settings):
    x = da.ones((6, 6), chunks=3)
    with dask.config.set(settings):
        for ask in (td.herk, lambda y: td.plan(td.herk, y)):
            with raises(PlanError, "setting"):
                ask(x)
        if "twom-dist" in settings:
            with raises(PlanError, "setting"):
                td.gemm(np.ones((3, 3)), np.ones((3, 3)))
