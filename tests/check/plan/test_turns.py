"""Plans for GPUs: turns of tiles that fit, panels worth a task, and short looks."""

from dataclasses import replace

import pytest

from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import MemoryLimitError
from twom_dist.plan import Cluster, make_plan
from twom_dist.plan.memory import MemoryBudget
from twom_dist.plan.turns import PANEL_VOLUME
from twom_dist.problem.call import Terms
from twom_dist.problem.choice import Choice
from twom_dist.problem.matrices import read_shape
from twom_dist.problem.problem import of_headers
from twom_dist.tiles.routine import ROUTINES

GIB = 2**30
# The pools of an H100 and of an H200.
POOLS = 71 * GIB, 126 * GIB


def plan(routine, n, workers, tile, limit=None, **options):
    """Plan a square product on GPUs."""
    x = read_shape("A", (n, n), "complex128")
    terms = Terms(ROUTINES[routine], Choice.of(engine="cuda", **options))
    posed = of_headers(terms, *[x] * ROUTINES[routine].matrices)
    sizes = (tile,) * (n // tile)
    cluster = Cluster(workers, 2, MemoryBudget(limit, "device"))
    return make_plan(replace(posed.spec, lazy=True), (sizes,) * 3, cluster)


@cases("limit", POOLS)
@cases("routine", ["gemm", "herk"])
def test_the_headline_product_fits_on_eight_gpus(routine, limit):
    found = plan(routine, 65536, 8, 8192, limit)
    assert found.memory.total <= limit * 0.8
    rows, columns = found.spec.turn
    # Tiles of A and B are encoded for several tiles of C.
    assert rows * columns >= 2
    assert found.cache_bytes >= (rows + columns) * 2 * GIB or routine == "herk"
    assert found.panels == 8


def test_a_turn_has_all_tiles_of_a_worker_where_they_fit():
    assert plan("gemm", 65536, 8, 8192, 126 * GIB).spec.turn == (4, 2)
    turns = [plan("gemm", 65536, 8, 8192, x * GIB).spec.turn for x in range(60, 126, 4)]
    sizes = [rows * columns for rows, columns in turns]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    # One of two workers has more than half of nine.
    rows, columns = plan("gemm", 3 * 8192, 2, 8192).spec.turn
    assert 2 * rows * columns >= 9


def test_what_no_device_can_hold_is_refused_with_what_would_do():
    with raises(MemoryLimitError, "memory") as caught:
        plan("gemm", 65536, 1, 8192, 71 * GIB)
    words = str(caught.value).split()
    needed = int(words[words.index("MiB,") - 1])
    assert plan("gemm", 65536, 1, 8192, needed * 2**20).memory.total > 71 * GIB


@pytest.mark.parametrize("options", [{}, {"num_moduli": 16}])
def test_a_look_takes_few_tasks(options):
    found = plan("gemm", 65536, 8, 8192, 126 * GIB, **options)
    assert found.num_tasks - 8**3 <= 150


@cases("tile", [512, 1024, 2048, 4096, 8192, 16384])
def test_panels_are_worth_a_task(tile):
    found = plan("gemm", 32768, 2, tile, None, num_moduli=16)
    longest = max(hi - lo for lo, hi in found.grid.panels)
    whole = found.grid.kt
    assert longest == 1 or longest * tile**3 <= PANEL_VOLUME
    assert longest == whole or (longest + 1) * tile**3 > PANEL_VOLUME / 2
