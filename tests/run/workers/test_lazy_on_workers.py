"""Lazy products on workers of this process: the bits of NumPy, and their progress."""

from functools import lru_cache

import dask
import dask.array as da
from distributed import Client, LocalCluster, progress

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.jobs import IN_PROCESS
from tests.support.strategies import random_matrix
from tests.support.tilings import TILINGS, K, M, N
from twom_dist.tiles.graph import PRODUCT, UPDATE

ABC = [random_matrix(*x, seed=s) for s, x in enumerate([(M, K), (K, N), (M, N)])]
GIVEN = {"alpha": 0.5 - 2j, "beta": -1.5}


@sample(
    ("workers", "threads", "tilings"),
    [
        (1, 2, ("even", "ragged")),
        (2, 1, ("ragged", "k alone")),
        (3, 2, ("k alone", "even")),
        (4, 1, ("even", "ragged")),
    ],
    [(2, 1, ("ragged", "k alone")), (3, 2, ("k alone", "even"))],
)
def test_every_number_of_workers(workers, threads, tilings):
    options = {"n_workers": workers, "threads_per_worker": threads}
    with (
        LocalCluster(**options, **IN_PROCESS) as cluster,
        Client(cluster),
        dask.config.set({"twom-dist.panel-bytes": "3 kB"}),
    ):
        for tiling in tilings:
            m, n, k = TILINGS[tiling]
            chunks = ((m, k), (k, n), (m, n))
            arrays = [da.from_array(x, y) for x, y in zip(ABC, chunks, strict=True)]
            found = td.gemm(*arrays, **GIVEN)
            assert same_bits(found.compute(), td.gemm(*ABC, **GIVEN))


def test_updates_have_the_bits_of_numpy():
    matrices = [random_matrix(61, 45, seed=seed) for seed in (1, 2)]
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, **IN_PROCESS) as cluster,
        Client(cluster),
    ):
        for routine in (td.herk, td.syrk, td.her2k, td.syr2k):
            given = matrices[: 1 + (routine in (td.her2k, td.syr2k))]
            arrays = [da.from_array(x, chunks=16) for x in given]
            assert same_bits(routine(*arrays).compute(), routine(*given)), routine


@lru_cache
def find_matrix():
    """Return the array of the user, which is the same in all of this process."""
    return random_matrix(9, 9, seed=1)


def test_a_worker_in_the_clients_process_sees_a_matrix_that_was_refilled():
    """The block that it holds is the array of the user."""
    A, B = find_matrix(), random_matrix(9, 9, seed=2)
    with Client(n_workers=1, **IN_PROCESS):
        delayed = dask.delayed(find_matrix)()
        a = da.from_delayed(delayed, A.shape, A.dtype).persist()
        b = da.from_array(B, chunks=5).persist()
        before = td.gemm(a, b).compute()
        A *= -1  # which leaves the exponents as they are
        after = td.gemm(a, b).compute()
    assert (before == td.gemm(-A, B)).all()
    assert (after == td.gemm(A, B)).all()


def test_a_cluster_shows_progress_by_stage(client, capsys):
    a = da.from_array(random_matrix(12, 9, seed=1), chunks=(4, 3))
    result = client.persist(td.herk(a))
    progress(result, notebook=False, scheduler=client.scheduler.address)
    assert "100% Completed" in capsys.readouterr().out
    stages = client.run_on_scheduler(
        lambda dask_scheduler: [*dask_scheduler.task_prefixes]
    )
    own = {stage for stage in stages if stage.startswith("twom-")}
    assert own >= {PRODUCT, UPDATE, "twom-sums"}
    assert not [stage for stage in own if any(x.isdigit() for x in stage)]
