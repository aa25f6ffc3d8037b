"""Plans of rank-k and rank-2k updates: exact counts, and memory of the triangle."""

import gc
import tracemalloc

import dask
import dask.array as da

import twom_dist as td
from tests.support.cases import cases, sample
from tests.support.strategies import random_matrix

ROUTINES = ("herk", "syrk", "her2k", "syr2k")
UNEVEN = ((30, 7, 24), (20, 25))


def operands(routine):
    return 2 if routine.endswith("2k") else 1


def plan(routine, shape=(61, 45), **options):
    shapes = [shape] * operands(routine)
    return td.plan(getattr(td, routine), *shapes, **options)


def plan_product(shape=(61, 45), *, chunks=None, **options):
    """Plan A times its conjugate transpose, tiled like the update."""
    if isinstance(chunks, tuple):
        chunks = (chunks[0], *chunks)
    return td.plan(td.gemm, shape, shape, op_b="C", chunks=chunks, **options)


@cases("chunks", [10, 61, (16, 45), UNEVEN])
def test_herk_is_exactly_half_of_gemm(chunks):
    update, product = plan("herk", chunks=chunks), plan_product(chunks=chunks)
    assert 2 * update.num_int8_gemms == product.num_int8_gemms
    assert 2 * update.int8_operations == product.int8_operations
    assert update.num_moduli == product.num_moduli
    assert update.error_bound == product.error_bound


@cases("routine", ROUTINES)
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
    found = plan(routine, method="blas", chunks=10, memory_limit=2**30)
    assert (found.num_int8_gemms, found.int8_operations, found.num_moduli) == (0, 0, 0)
    # The other op swaps the shape.
    op = "C" if routine.startswith("her") else "T"
    turned = plan(routine, (45, 61), op=op, chunks=10)
    assert turned.to_json() == plan(routine, chunks=10).to_json()
    for shape in ((0, 5), (5, 0), (0, 0)):
        assert plan(routine, shape).int8_operations == 0


@cases("rows", [(30, 7, 24) * 3, (3, 1, 2) * 200])
def test_each_entry_is_held_by_one_worker(rows):
    """Beyond 256 rows of tiles, too, where only a part of them is placed by itself."""
    sizes = {"chunks": (rows, (20, 25)), "n_workers": 3, "uplo": "full"}
    fullest = plan("herk", (sum(rows), 45), **sizes).memory.outputs // 16
    assert 1 <= 3 * fullest / sum(rows) ** 2 < 1.15


# Every two of the three meet.
@sample(
    ("routine", "beta", "cache_bytes"),
    [
        ("herk", 0, "2 GiB"),
        ("herk", 2, "512 KiB"),
        ("her2k", 0, "512 KiB"),
        ("her2k", 2, "2 GiB"),
    ],
    [("herk", 2, "512 KiB")],
)
def test_the_measured_peak_is_the_planned_one(routine, beta, cache_bytes):
    n, k, tile = 512, 256, 128
    settings = {"cache-bytes": cache_bytes, "reuse-bytes": 0, "threads": 1}
    count = operands(routine)
    with dask.config.set({f"twom-dist.{name}": x for name, x in settings.items()}):
        # Loads modules and kernels.
        some = da.from_array(random_matrix(2 * tile, k, seed=3), chunks=tile)
        getattr(td, routine)(*[some] * count).compute(scheduler="sync")
        del some  # and its encoded tiles
        gc.collect()
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
