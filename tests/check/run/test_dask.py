"""Products of dask arrays: lazy, and the same bits for every way to compute them."""

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
from tests.support.strategies import LAYOUTS, random_matrix
from tests.support.tilings import TILINGS, K, M, N
from twom_dist.config import bytes_setting
from twom_dist.errors import PlanError
from twom_dist.tiles.cache import encoded_tiles
from twom_dist.tiles.graph import PANEL, PRODUCT
from twom_dist.tiles.task_spec import Alias

OPTIONS = {"alpha": 0.5 - 2j, "beta": -1.5}
each_tiling = pytest.mark.parametrize("tiling", TILINGS)
SCHEDULERS = ("sync", "threads")


@pytest.fixture(scope="module")
def matrices():
    return tuple(
        random_matrix(*shape, seed=s)
        for s, shape in enumerate([(M, K), (K, N), (M, N)])
    )


@pytest.fixture(scope="module")
def expected(matrices):
    return td.gemm(*matrices, **OPTIONS)


def chunked(matrices, tiling):
    m, n, k = TILINGS[tiling]
    chunks = ((m, k), (k, n), (m, n))
    return [da.from_array(x, chunks=c) for x, c in zip(matrices, chunks, strict=True)]


# --- the same bits ----------------------------------------------------------------


@pytest.fixture
def one_thread(monkeypatch):
    """On machines of any size few tiles are shared by no threads along k."""
    monkeypatch.setattr("twom_dist.run.client.CPU_COUNT", 1)


@cases("panel_bytes", [1, "4 kB", "10 kB"])
@cases("tiling", ["even", "k alone", "single rows", "empty pieces"])
def test_panels_change_nothing(panel_bytes, tiling, matrices, expected, one_thread):
    m, n, k = TILINGS[tiling]
    A, B, C = chunked(matrices, tiling)
    with dask.config.set({"twom-dist.panel-bytes": panel_bytes}):
        found = td.gemm(A, B, C, **OPTIONS)
    counts = count_stages(found)
    tiles = len(m) * len(n)
    assert counts[PRODUCT] == tiles
    panels = counts.get(PANEL, 0) // tiles + 1
    assert panels == len(k) if panel_bytes == 1 else 1 <= panels <= len(k)
    assert same_bits(found.compute(scheduler="sync"), expected)


@each_tiling
@cases("panel_bytes", [1, "1 GiB"])
def test_nonfinite_entries_across_tiles(tiling, panel_bytes, matrices):
    A, B, C = (x.copy() for x in matrices)
    A[3, 2], A[3, 30], A[22, 17] = np.inf, -np.inf, np.nan
    B[0, 5], B[16, 18], C[7, 7] = complex(0, np.inf), np.nan, np.nan
    expected = td.gemm(A, B, C, beta=1)
    bad = np.zeros((M, N), bool)
    bad[[3, 22]], bad[:, [5, 18]], bad[7, 7] = True, True, True
    assert (np.isfinite(expected) == ~bad).all()
    with dask.config.set({"twom-dist.panel-bytes": panel_bytes}):
        found = td.gemm(*chunked((A, B, C), tiling), beta=1).compute(scheduler="sync")
    assert np.array_equal(found, expected, equal_nan=True)
    assert same_bits(found[~bad], expected[~bad])


@pytest.mark.parametrize("ops", ["TN", "NC", "CT", "CC"])
def test_ops(ops, matrices, expected):
    A, B, C = chunked(matrices, "ragged")
    flip = {"N": lambda x: x, "T": lambda x: x.T, "C": lambda x: x.conj().T}
    options = {"op_a": ops[0], "op_b": ops[1], **OPTIONS}
    found = td.gemm(flip[ops[0]](A), flip[ops[1]](B), C, **options)
    assert same_bits(found.compute(scheduler="sync"), expected)


@pytest.mark.parametrize(("rows", "steps"), [(23, 2), (12, 3)])
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


@pytest.mark.parametrize("lazy", ["A", "B", "C"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_joins_dask(lazy, layout, matrices, expected):
    arrays = {name: LAYOUTS[layout](x) for name, x in zip("ABC", matrices, strict=True)}
    arrays[lazy] = da.from_array(arrays[lazy], chunks=(7, 8))
    found = td.gemm(*arrays.values(), **OPTIONS)
    assert isinstance(found, da.Array)
    assert same_bits(found.compute(scheduler="sync"), expected)


@pytest.mark.parametrize(
    ("a", "b"), [("float32", "complex128"), ("int16", "float32"), ("complex64", "f8")]
)
def test_dtypes_are_promoted(a, b, matrices):
    A, B = (20 * x.real for x in matrices[:2])
    A, B = A.astype(a), B.astype(b)
    expected = td.gemm(A, B)
    left, right, _ = chunked((A, B, matrices[2]), "even")
    found = td.gemm(left, right)
    assert found.dtype == found._meta.dtype == expected.dtype
    assert same_bits(found.compute(scheduler="sync"), expected)


# --- the graph --------------------------------------------------------------------


def refuse_to_compute(*args, **kwargs):
    raise AssertionError("computed while the graph was built")


def test_nothing_is_computed_while_the_graph_is_built():
    def fail(block):
        raise RuntimeError("this source was computed")

    meta = np.empty((0, 0), "complex128")
    A, B, C = (
        da.zeros((20, 20), dtype=complex, chunks=c).map_blocks(fail, meta=meta)
        for c in ((7, 5), (4, 20), (6, 6))
    )
    with dask.config.set(scheduler=refuse_to_compute):
        found = td.gemm(A, B, C, alpha=2, beta=1j, op_a="T")
        found = td.gemm(found, np.eye(20))
        td.herk(found), td.plan(td.gemm, A, B, op_a="T")
        repr(found)
    assert isinstance(found, da.Array)
    assert type(found._meta) is np.ndarray
    with pytest.raises(RuntimeError, match="this source was computed"):
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


@each_tiling
def test_one_product_task_for_each_tile_of_c(tiling, matrices, one_thread):
    A, B, C = chunked(matrices, tiling)
    m, n, _ = map(len, TILINGS[tiling])
    counts = count_stages(td.gemm(A, B, C, beta=1, num_moduli=16))
    assert counts[PRODUCT] == m * n
    assert counts["twom-exponents"] == m + n
    assert PANEL not in counts
    # One thread measures whole rows where their exponents are chosen.
    assert "twom-sums" not in counts
    counts = count_stages(td.gemm(A, B, C, beta=1))
    assert (counts[PRODUCT], counts["twom-spec"]) == (m * n, 2)
    assert counts["twom-sums"] == (m + n) * 2
    assert (counts["twom-octaves"], counts["twom-pairs"]) == (m + n, m * n)
    assert set(count_stages(td.gemm(A, B, method="blas"))) == {PRODUCT}


def test_results_are_ordinary_dask_arrays(matrices, expected):
    A, B, C = chunked(matrices, "even")
    found = td.gemm(A, B, C, **OPTIONS)
    assert same_bits(found[3:9, [1, 17]].compute(), expected[3:9, [1, 17]])
    assert np.allclose(found.sum().compute(), expected.sum())
    assert same_bits(found.persist().compute(), expected)


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


# --- encoded tiles ----------------------------------------------------------------


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("panel_bytes", [1, "1 GiB"])
def test_each_tile_is_encoded_once(scheduler, panel_bytes, matrices):
    A, B, _ = chunked(matrices, "even")
    m, n, k = map(len, TILINGS["even"])
    encoded_tiles.clear()
    with dask.config.set({"twom-dist.panel-bytes": panel_bytes}):
        td.gemm(A, B).compute(scheduler=scheduler)
    counters = encoded_tiles.counters
    assert counters.encoded == m * k + k * n
    assert counters.encoded + counters.reused == 2 * m * n * k
    del A, B
    gc.collect()
    assert (len(encoded_tiles), encoded_tiles.nbytes) == (0, 0)


def test_a_cached_tile_serves_only_what_it_was_encoded_for(engine_name):
    """One array lives on; products with it differ in each part of a cache key."""
    x = random_matrix(9, 13)
    A = da.from_array(x, chunks=(4, 6)).persist(scheduler="sync")
    wide = da.concatenate([A, 4 * A], axis=1)
    computed = x, np.hstack([x, 4 * x])
    for options in (
        {"num_moduli": 16},
        {"num_moduli": 15},
        {"method": "3m", "num_moduli": 15},
        {"method": "3m", "num_moduli": 16},
    ):
        for op in ("T", "C"):
            for x, array in ((A, computed[0]), (wide, computed[1])):
                expected = td.gemm(array, array, op_b=op, **options)
                found = td.gemm(x, x, op_b=op, engine=engine_name, **options)
                assert same_bits(found.compute(scheduler="sync"), expected)


@pytest.mark.parametrize("budget", [0, 20_000, "1 MB"])
def test_the_cache_keeps_to_its_budget(budget, matrices, expected):
    encoded_tiles.clear()
    with dask.config.set({"twom-dist.cache-bytes": budget}):
        A, B, C = chunked(matrices, "even")
        found = td.gemm(A, B, C, **OPTIONS).compute(scheduler="sync")
        assert encoded_tiles.nbytes <= dask.utils.parse_bytes(budget)
    assert same_bits(found, expected)
    counters = encoded_tiles.counters
    if budget == 0:  # nobody asks it
        assert counters.encoded == counters.reused == 0
    else:
        m, n, k = map(len, TILINGS["even"])
        assert counters.encoded + counters.reused == 2 * m * n * k
    encoded_tiles.clear()


def test_a_wrong_setting_is_refused_before_it_counts():
    """It is read where workers cannot hold a product."""
    x = da.ones((6, 6), chunks=3)
    with dask.config.set({"twom-dist.refuse-memory": "maybe"}):
        for ask in (td.herk, lambda y: td.plan(td.herk, y)):
            with raises(PlanError, "setting"):
                ask(x)


@pytest.mark.parametrize("name", ["panel-bytes", "cache-bytes"])
def test_a_size_beyond_all_numbers_is_refused(name):
    with dask.config.set({f"twom-dist.{name}": "1e400"}), raises(PlanError, "setting"):
        bytes_setting(name)


@pytest.mark.parametrize("settings", [None, [], 3, "all"])
def test_settings_that_are_none_are_refused(settings):
    x = np.ones((3, 3))
    with dask.config.set({"twom-dist": settings}):
        for y in (x, da.from_array(x)):
            with raises(PlanError, "setting"):
                td.gemm(y, y)


def test_parts_of_a_result_take_what_they_need(one_thread):
    x = da.ones((600, 600), chunks=100, dtype=complex).map_blocks(np.copy)

    def tasks(y):
        optimised = y.__dask_optimize__(y.dask, y.__dask_keys__())
        return Counter(str(key).split("-")[1] for key in dict(optimised))

    given, other = tasks(td.gemm(x, x, num_moduli=16)[:100]), tasks((x @ x)[:100])
    assert given.total() < other.total()
    assert given["product"] == 6
    # The look takes all rows, as they are and shifted.
    assert tasks(td.gemm(x, x)[:100])["sums"] == 2 * 12


@pytest.mark.parametrize(
    ("threads", "by_default", "given"),
    [(2, (168, 203), (55, 120)), (16, (352, 387), (104, 204))],
)
def test_a_slice_looks_at_everything_unless_moduli_are_given(
    monkeypatch, threads, by_default, given
):
    """The figures of docs/scaling-out.md."""

    def count(x):
        tasks = dict(dask.optimize(x)[0].__dask_graph__()).values()
        return sum(not isinstance(task, Alias) for task in tasks)

    monkeypatch.setattr("twom_dist.run.client.CPU_COUNT", threads)
    a, b = (da.random.random((600, 600), chunks=100) for _ in range(2))
    products = td.gemm(a, b), td.gemm(a, b, num_moduli=16)
    found = [(count(c[:100]), count(c)) for c in products]
    assert found == [by_default, given]
