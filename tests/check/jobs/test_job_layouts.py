"""Jobs are laid out in the memory of their workers, or refused with what helps."""

import json
import re
from types import SimpleNamespace

import numpy as np
from dask.callbacks import Callback
from hypothesis import given, settings
from hypothesis import strategies as st

import twom_dist as td
from tests.support.cases import cases
from tests.support.command import make, read
from tests.support.expect import first_number, same_bits
from tests.support.jobs import small_cluster
from twom_dist.errors import MemoryLimitError
from twom_dist.jobs import begin, budget_for_job, compute, open_job

MIB = 2**20


def plan(routine, shape, mib, workers=1, chunks=None, **options):
    """Plan a job on matrices of shape (m, n, k), or (n, n, k)."""
    m, n, k = shape
    options |= {"chunks": chunks, "n_workers": workers, "memory_limit": mib * MIB}
    if routine == "gemm":
        return td.plan(td.multiply_files, (m, k), (k, n), **options)
    if routine.endswith("2k"):
        options["b"] = (n, k)
    return td.plan(td.rank_k_files, getattr(td, routine), (n, k), **options)


@settings(max_examples=40)
@given(
    st.sampled_from(["gemm", "herk", "syr2k"]),
    st.tuples(*[st.sampled_from([1, 300, 500, 3000, 20_000])] * 3),
    st.sampled_from([200, 450, 515, 600, 1024, 4000]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([None, 64, 500, 2048, 4096]),
    st.sampled_from([None, 16]),
)
def test_a_plan_fits_and_a_refusal_names_what_does(
    routine, shape, mib, workers, tile, moduli
):
    if tile == 64:
        shape = tuple(min(x, 500) for x in shape)
    given = {"num_moduli": moduli}
    try:
        found = plan(routine, shape, mib, workers, tile, **given)
    except MemoryLimitError as error:
        refused = error
    else:
        assert found.peak_worker_bytes <= mib * MIB
        return
    least = first_number(refused.remedy)
    assert least > mib
    assert plan(routine, shape, least, workers, tile, **given)
    if fewer := re.search(r"start (\d+) workers? of (\d+) MiB", refused.remedy):
        count, each = map(int, fewer.groups())
        assert count * each <= mib * workers
        assert plan(routine, shape, each, count, tile, **given)


def test_the_fullest_worker_and_the_earliest_pause_count():
    cluster = plan("gemm", (9, 9, 9), 1024, 2).cluster
    for pause, counted in ((0.4, 0.4), (False, 0.8)):
        workers = {"a": (700 * MIB, 0.8), "b": (100 * MIB, pause)}
        client = SimpleNamespace(run=lambda *_, told=workers, **__: told)
        budget = budget_for_job(cluster, client).memory
        assert (budget.taken_bytes, budget.pause) == (700 * MIB, counted)


def test_more_moduli_than_expected_take_smaller_waves(here):
    """Only the matrices tell how many are needed."""
    scales = 2.0 ** (np.arange(512) % 64)
    a, b = make(512, 512, 1) * scales, make(512, 512, 2) / scales[:, np.newaxis]
    np.save("A.npy", a)
    np.save("B.npy", b)
    options = {"equilibrate": False}
    job = open_job(td.gemm.ask("A.npy", "B.npy", **options), "C.npy")
    cluster = plan("gemm", (512,) * 3, 515, chunks=64).cluster
    with begin(job, cluster, 64) as run:
        summary = compute(run)
    assert summary.num_moduli > len(run.layout.spec.moduli)
    assert summary.waves > len(run.layout.waves)
    assert same_bits(read("C.npy"), td.gemm(a, b, **options))


# Jobs with the shape of A, in tiles of 16.
WAVES = {
    "gemm": ("gemm", 200, 100, {}),
    "herk": ("herk", 200, 100, {}),
    "syr2k": ("syr2k", 200, 100, {}),
    "layers": ("herk", 60, 3000, {}),
    "layers of her2k": ("her2k", 60, 2000, {}),
    "diag": ("gemm", 200, 100, {"diag": np.arange(100.0)}),
    "diag of herk": ("herk", 200, 100, {"diag": np.arange(100.0), "uplo": "upper"}),
    "C": ("gemm", 200, 100, {"beta": 2}),
    "C of her2k": ("her2k", 200, 100, {"beta": 2}),
    "checked": ("her2k", 100, 100, {"num_moduli": None}),
}


@cases("case", WAVES)
def test_a_plan_adds_up_the_tasks_and_bytes_of_all_waves(here, case):
    routine, m, k, options = WAVES[case]
    options = {"num_moduli": 8} | options
    names = "a" if routine in ("herk", "syrk") else "ab"
    names += "c" * ("beta" in options)
    shapes = {"a": (m, k), "b": (k, m) if routine == "gemm" else (m, k), "c": (m, m)}
    for name in names:
        np.save(f"{name}.npy", make(*shapes[name], 1))
    paths = {x: f"{x}.npy" for x in names}
    function, seen, read = getattr(td, routine), [], []
    job = open_job(function.ask(*paths.values(), **options), f"{case}.npy")
    cluster = small_cluster(job, "waves")
    on = {"memory_limit": cluster.memory.limit, "n_workers": 2, "threads_per_worker": 1}
    whole, found = (
        td.plan(
            td.multiply_files if routine == "gemm" else td.rank_k_files,
            **{"routine": function, "chunks": 16, **paths, **workers, **options},
        )
        for workers in ({"n_workers": 1}, on)
    )

    def see(key, result, *_):
        seen.append(str(key))
        if key[0].startswith("read-"):
            read.append(result.nbytes)

    def begin_again(phase):
        if phase == "multiplying":
            seen.clear()
            read.clear()

    with Callback(posttask=see), begin(job, cluster, 16) as run:
        compute(run, enter=begin_again)
    # A tile of an update has a second name.
    others = "'twom-write", "'twom-update"
    ours = sum("'twom-" in x and not any(y in x for y in others) for x in seen)
    assert found.waves > 1 == whole.waves
    assert found.total["num_tasks"] == ours > found.num_tasks
    assert found.total["bytes_read"] == sum(read)
    assert whole.num_tasks == whole.total["num_tasks"]
    assert f"{ours} tasks, " in str(found)
    assert json.loads(found.to_json())["total"] == found.total
    assert {found: 1}  # a plan may be a key


def test_the_other_triangle_is_written_without_memory():
    full, lower = (
        plan("syr2k", (28_000, 28_000, 1000), 2048, 4, uplo=uplo)
        for uplo in ("full", "lower")
    )
    assert full.waves == lower.waves > 1
    assert full.peak_worker_bytes == lower.peak_worker_bytes
    # There is room for encoded tiles.
    assert not any((full.cramped, lower.cramped))
