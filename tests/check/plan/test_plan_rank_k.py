"""Plans of rank-k and rank-2k updates: exact counts, and memory of the triangle."""

import gc
import json
import tracemalloc
from collections import defaultdict

import dask
import dask.array as da
import pytest

import twom_dist as td
from tests.support.cases import cases, sample
from tests.support.stages import count_stages
from tests.support.strategies import random_matrix
from twom_dist.plan import planner
from twom_dist.tiles.cache import encoded_tiles
from twom_dist.tiles.graph import PANEL, PRODUCT, SCALING_STAGES, UPDATE
from twom_dist.tiles.placement.triangle import triangle_map

ROUTINES = ("herk", "syrk", "her2k", "syr2k")
UPLOS = ("full", "lower", "upper")
METHODS = ("2m", "3m", "4m", "hybrid", "eisenstein")
UNEVEN = ((30, 7, 24), (20, 25))
each_routine = pytest.mark.parametrize("routine", ROUTINES)


def operands(routine):
    return 2 if routine.endswith("2k") else 1


def plan(routine, shape=(61, 45), **options):
    shapes = [shape] * operands(routine)
    return td.plan(getattr(td, routine), *shapes, **options)


def plan_product(shape=(61, 45), *, op="C", chunks=None, **options):
    """Plan op(A) times its transpose, tiled like the update."""
    if isinstance(chunks, tuple):
        chunks = (chunks[0], *chunks)
    return td.plan(td.gemm, shape, shape, op_b=op, chunks=chunks, **options)


# --- int8 products ----------------------------------------------------------------


@pytest.mark.parametrize("chunks", [10, 61, (16, 45), UNEVEN])
def test_herk_is_exactly_half_of_gemm(chunks):
    update, product = plan("herk", chunks=chunks), plan_product(chunks=chunks)
    assert 2 * update.num_int8_gemms == product.num_int8_gemms
    assert 2 * update.int8_operations == product.int8_operations
    assert update.num_moduli == product.num_moduli
    assert update.error_bound == product.error_bound


@cases("method", METHODS)
@cases("tiles", [1, 2, 7])
def test_products_by_tile(tiles, method):
    kt, below = 3, tiles * (tiles - 1) // 2
    sizes = {"shape": (10 * tiles, 30), "chunks": 10, "method": method}
    of_tile = plan_product(**sizes).num_int8_gemms // (kt * tiles**2)
    found = {name: plan(name, **sizes).num_int8_gemms // kt for name in ROUTINES}
    assert found["syrk"] == of_tile * (below + tiles)
    assert found["her2k"] == found["syr2k"] == of_tile * tiles**2
    assert found["herk"] < found["syrk"]


@each_routine
def test_operations_are_those_of_uneven_tiles(routine):
    (n, k), (rows, _) = (61, 45), UNEVEN
    of_gemm = plan_product(chunks=UNEVEN).int8_operations // (2 * n * n * k)
    on = sum(size**2 for size in rows)
    below = (n**2 - on) // 2
    products = {
        "herk": of_gemm // 2 * on + of_gemm * below,
        "syrk": of_gemm * (on + below),
    }.get(routine, of_gemm * n**2)
    assert plan(routine, chunks=UNEVEN).int8_operations == 2 * k * products


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_real_diagonal_tile_has_no_half_form(dtype):
    sizes = {"dtype": dtype, "chunks": 10}
    herk, syrk = plan("herk", **sizes), plan("syrk", **sizes)
    assert herk.dtype == dtype
    assert herk.num_int8_gemms == syrk.num_int8_gemms
    single = plan("herk", dtype="complex64")
    assert single.num_moduli < plan("herk").num_moduli


@each_routine
def test_the_native_update_has_no_int8_products(routine):
    found = plan(routine, method="blas", chunks=10, memory_limit=2**30)
    assert (found.num_int8_gemms, found.int8_operations, found.num_moduli) == (0, 0, 0)


# --- tasks: the graph is counted ------------------------------------------------------


def lazy(routine, chunks, **options):
    arrays = [da.zeros((61, 45), dtype=complex, chunks=chunks)] * operands(routine)
    return getattr(td, routine)(*arrays, **options)


@each_routine
@cases("chunks", [(61, 45), (10, 10), UNEVEN])
@cases("panel_bytes", [1, 10_000])
@cases("options", [{}, {"method": "blas"}])
def test_tasks_are_those_of_the_graph(routine, chunks, panel_bytes, options):
    for uplo in UPLOS:
        with dask.config.set({"twom-dist.panel-bytes": panel_bytes}):
            array = lazy(routine, chunks, uplo=uplo, **options)
            tiles = (array.chunks[0], chunks[1])
            found = plan(routine, chunks=tiles, uplo=uplo, **options)
        stages = count_stages(array)
        assert found.num_tasks == stages.total()
        nt = found.tiles[0]
        assert stages[PRODUCT] == nt * (nt + 1) // 2
        assert stages[PANEL] == stages[PRODUCT] * (found.panels - 1)
        assert stages[UPDATE] == nt * (nt - 1) // 2
        own = {PRODUCT, PANEL, UPDATE, *SCALING_STAGES}
        assert set(stages) <= own


# --- placement and memory -------------------------------------------------------------


@each_routine
def test_one_worker_holds_everything_and_moves_nothing(routine):
    found = plan(routine, chunks=10)
    assert (found.held_fraction, found.bytes_moved, found.worker_grid) == (1, 0, None)


@each_routine
@cases("workers", [2, 3, 4, 6, 16])
@cases("rows", [(30, 7, 24, 30, 30, 1, 30, 30), (25,) * 8])
def test_rows_move_once_to_each_further_holder(routine, workers, rows):
    n, k = sum(rows), 45
    placed = triangle_map(len(rows), workers)
    holders = defaultdict(set)
    for (i, j), slot in placed.slots.items():
        holders[i].add(slot)
        holders[j].add(slot)
    moved = sum(rows[i] * (len(slots) - 1) for i, slots in holders.items())
    held = [sum(rows[i] for i in placed.rows_of(slot)) for slot in range(workers)]
    # A single tile along k, which nobody shares.
    found = plan(routine, (n, k), chunks=(rows, k), n_workers=workers)
    assert found.bytes_moved == operands(routine) * moved * k * 16
    assert found.held_fraction == max(held) / n
    if len(set(rows)) == 1:
        assert found.held_fraction == placed.held_fraction
        assert moved == rows[0] * placed.copies


@pytest.mark.parametrize("rows", [(30, 7, 24) * 3, (3, 1, 2) * 200])
def test_each_entry_is_held_by_one_worker(rows):
    """Beyond 256 rows of tiles, too, where only a part of them is placed by itself."""
    chunks = (rows, (20, 25))
    found = plan("herk", (sum(rows), 45), chunks=chunks, n_workers=3, uplo="full")
    placed, results = triangle_map(len(rows), 3), [0] * 3
    for i, high in enumerate(rows):
        for j, wide in enumerate(rows[: i + 1]):
            results[placed.slot(i, j)] += high * wide * (1 if i == j else 2)
    assert sum(results) == sum(rows) ** 2
    fullest = found.memory.outputs // 16
    assert fullest in results
    assert fullest * 3 >= sum(results)


def test_memory_of_one_worker_is_inputs_results_encoded_and_one_task(monkeypatch):
    monkeypatch.setattr(planner, "KEPT_SHARE", 10)
    n, k, tile = 4096, 2048, 512
    sizes = {"shape": (n, k), "chunks": tile, "beta": 2, "memory_limit": 2**40}
    lower = plan("herk", uplo="lower", **sizes)
    full = plan("herk", uplo="full", **sizes)
    below = (n * n - n * tile) // 2 * 16
    assert full.peak_worker_bytes - lower.peak_worker_bytes == below
    plain = plan("herk", uplo="lower", **{**sizes, "beta": 0})
    of_c = below + n * tile * 16
    assert (
        0 < lower.peak_worker_bytes - plain.peak_worker_bytes - of_c < 5 * tile**2 * 16
    )
    two = plan("her2k", uplo="lower", **sizes)
    a_bytes = n * k * 16
    assert two.peak_worker_bytes - lower.peak_worker_bytes > a_bytes
    assert plan("herk", uplo="upper", **sizes).peak_worker_bytes == (
        lower.peak_worker_bytes
    )


@pytest.mark.parametrize("workers", [1, 2, 4, 6, 16])
def test_a_triangle_needs_less_than_the_product(workers):
    sizes = {"shape": (8192, 4096), "chunks": 512, "n_workers": workers}
    # Encoded tiles aside: those of a triangle serve on both sides.
    with dask.config.set({"twom-dist.cache-bytes": "1 MiB"}):
        update, product = plan("herk", uplo="lower", **sizes), plan_product(**sizes)
    assert update.peak_worker_bytes < product.peak_worker_bytes


# Every two of the three meet.
@sample(
    ("routine", "beta", "cache_bytes"),
    [
        ("herk", 0, "2 GiB"),
        ("herk", 2, "512 KiB"),
        ("her2k", 0, "512 KiB"),
        ("her2k", 2, "2 GiB"),
    ],
    [("herk", 2, "512 KiB"), ("her2k", 0, "512 KiB")],
)
def test_the_measured_peak_is_the_planned_one(routine, beta, cache_bytes):
    n, k, tile = 512, 256, 128
    settings = {"cache-bytes": cache_bytes, "reuse-bytes": 0, "threads": 1}
    count = operands(routine)
    with dask.config.set({f"twom-dist.{name}": x for name, x in settings.items()}):
        # Loads modules and kernels.
        some = da.from_array(random_matrix(2 * tile, k, seed=3), chunks=tile)
        getattr(td, routine)(*[some] * count).compute(scheduler="sync")
        gc.collect()
        encoded_tiles.clear()
        tracemalloc.start()
        matrices = [random_matrix(n, k, seed=s) for s in range(count)]
        matrices += [random_matrix(n, n, seed=2)] if beta else []
        arrays = [da.from_array(x, chunks=tile) for x in matrices]
        del matrices
        tracemalloc.reset_peak()
        kept = getattr(td, routine)(*arrays, beta=beta).persist(scheduler="sync")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        planned = plan(routine, (n, k), chunks=tile, beta=beta).peak_worker_bytes
    assert kept.shape == (n, n)
    # The plan counts what is read of C, and here all of it is there.
    unread = n * (n - tile) // 2 * 16 if beta else 0
    # Measured: 0.88 and 0.92 where little is kept encoded, 0.98 and 1.00 where all is.
    assert 0.75 < peak / (planned + unread) < 1.03


# --- what is printed ------------------------------------------------------------------


@each_routine
@cases("uplo", UPLOS)
def test_text_and_json_say_the_routine_and_the_triangle(routine, uplo):
    found = plan(routine, (8192, 4096), n_workers=4, uplo=uplo)
    assert (found.routine, found.uplo) == (routine, uplo)
    text = str(found)
    for part in (f"{routine}, {uplo}", "4096 x 8192, complex128", "of the rows"):
        assert part in text
    kept = json.loads(found.to_json())
    assert kept["routine"] == routine
    assert kept["worker_grid"] is None
    assert 0.5 <= kept["held_fraction"] < 1


def test_a_plan_of_gemm_says_so():
    found = plan_product()
    assert (found.routine, found.uplo, found.held_fraction) == ("gemm", None, None)
    assert "gemm" in str(found).splitlines()[0]


@pytest.mark.parametrize(
    ("chunks", "workers", "of_gemm", "of_herk"),
    [(1024, 4, 3, 3), (512, 4, 0, 1), (256, 4, 0, 0), (256, 7, 3, 1), (300, 20, 4, 10)],
)
def test_workers_without_a_tile_are_counted(chunks, workers, of_gemm, of_herk):
    sizes = {"chunks": chunks, "n_workers": workers}
    assert plan_product((1024, 64), **sizes).idle_workers == of_gemm
    assert plan("herk", (1024, 64), **sizes).idle_workers == of_herk


@each_routine
def test_the_other_op_swaps_the_shape(routine):
    hermitian = routine.startswith("her")
    turned = plan(routine, (45, 61), op="C" if hermitian else "T", chunks=10)
    assert turned.to_json() == plan(routine, (61, 45), chunks=10).to_json()


@each_routine
@cases("shape", [(0, 5), (5, 0), (0, 0), (1, 1)])
def test_empty_and_single(routine, shape):
    found = plan(routine, shape, memory_limit=2**30)
    assert found.shape == (shape[0], *shape)
    assert found.int8_operations == 0 or shape == (1, 1)


@pytest.mark.parametrize(("workers", "tile"), [(1, 2048), (4, 1024), (64, 256)])
def test_tiles_are_chosen_by_those_that_are_computed(workers, tile):
    found = plan("herk", (8192, 8192), n_workers=workers)
    assert found.tile_shape == (tile, tile, tile)
