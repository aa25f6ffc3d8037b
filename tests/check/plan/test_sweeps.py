"""Plans for GPUs: sweeps of tiles that fit, panels worth a task, and short looks."""

import twom_dist as td
from tests.support.cases import cases

GIB = 2**30


def plan(routine, n, workers, tile, limit=None, **options):
    """Plan a square product on GPUs, whose pools have so many GiB."""
    shapes = [(n, n)] * (1 if routine == "herk" else 2)
    given = {"n_workers": workers, "threads_per_worker": 2, "chunks": tile}
    given |= {"memory_limit": None if limit is None else int(limit * GIB)}
    given |= {"engine": "cuda", "dtype": "complex128"} | options
    return td.plan(getattr(td, routine), *shapes, **given)


@cases("limit", [71, 126])  # an H100 and an H200
@cases("routine", ["gemm", "herk"])
def test_the_headline_product_fits_on_eight_gpus(routine, limit):
    found = plan(routine, 65536, 8, 8192, limit)
    assert found.memory.total <= limit * GIB * 0.8
    rows, columns = found.spec.sweep
    # Tiles of A and B are encoded for several tiles of C.
    assert rows * columns >= 2
    assert found.cache_bytes >= (rows + columns) * 2 * GIB or routine == "herk"
    assert found.panels == 8
    # A look takes few tasks.
    assert routine == "herk" or found.num_tasks - 8**3 <= 150


def test_a_turn_has_all_tiles_of_a_worker_where_they_fit():
    assert plan("gemm", 65536, 8, 8192, 126).spec.sweep == (4, 2)
    sweeps = [plan("gemm", 65536, 8, 8192, x).spec.sweep for x in range(60, 126, 4)]
    sizes = [rows * columns for rows, columns in sweeps]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    # One of two workers has more than half of nine.
    rows, columns = plan("gemm", 3 * 8192, 2, 8192).spec.sweep
    assert 2 * rows * columns >= 9
