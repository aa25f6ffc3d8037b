"""Jobs on a cluster: the same bits from files, in waves, and after interrupts."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import read, save, visible
from tests.support.expect import raises
from tests.support.jobs import (
    OUTPUTS,
    K,
    M,
    N,
    compute_in_waves,
    multiply,
    stop_after,
    task_names,
    wait_until,
)
from tests.support.layouts import lay_out
from twom_dist.api.files import multiply_files
from twom_dist.errors import PlanError
from twom_dist.jobs import Progress, open_job
from twom_dist.plan import Cluster
from twom_dist.plan.memory import MemoryBudget

GIB = 2**30


# --- the result ----------------------------------------------------------------------


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_has_the_bits_of_gemm(client, files, output):
    seen: list[Progress] = []
    options = {} if output == "C.zarr" else {"num_moduli": 16}
    summary = multiply(output, client=client, progress=seen.append, **options)
    assert same_bits(read(output), td.gemm(*files[:2], **options))
    assert [(p.done, p.tiles) for p in seen] == [(i, 30) for i in range(1, 31)]
    assert seen[-1].operations == 8 * M * N * K
    assert (summary.shape, summary.tiles) == ((M, N, K), (5, 6, 2))
    assert (summary.method, summary.num_moduli, summary.waves) == ("2m", 16, 1)
    assert summary.gflops == pytest.approx(8 * M * N * K / summary.seconds / 1e9)
    names = ["A.zarr", "B.npy", "C0.h5", output.partition("::")[0]]
    assert sorted(os.listdir()) == sorted(names)


@pytest.mark.parametrize(("output", "alone"), [("C.zarr", False), ("C.h5", True)])
def test_waves_give_the_same_bits(request, files, output, alone):
    a, b, c = files
    client = None if alone else request.getfixturevalue("client")
    options = {"alpha": 2 - 1j, "beta": 0.5j, "method": "hybrid", "accuracy": 1e-20}
    job = open_job(td.gemm.ask("A.zarr", "B.npy", "C0.h5", **options), output)
    assert compute_in_waves(job, client).waves > 2
    assert same_bits(read(output), td.gemm(a, b, c, **options))


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (2, 3, 0), (1, 1, 1)])
def test_small_and_empty_shapes(files, shape):
    m, k, n = shape
    np.save("A.npy", np.ones((m, k), "c16"))
    np.save("B.npy", np.ones((k, n), "c16"))
    multiply_files("A.npy", "B.npy", "C.zarr")
    assert same_bits(read("C.zarr"), np.full((m, n), k, "c16"))


@pytest.mark.parametrize(
    ("routine", "uplo"),
    [("herk", "full"), ("syrk", "lower"), ("her2k", "upper"), ("syr2k", "full")],
)
def test_updates_in_waves_have_the_bits_of_the_routine(client, files, routine, uplo):
    a = files[0]
    options = {"uplo": uplo} | ({} if routine == "herk" else {"num_moduli": 16})
    save("A2.npy", 2 * a)
    paths, matrices = ("A.zarr", "A2.npy"), (a, 2 * a)
    if "2k" not in routine:
        paths, matrices = paths[:1], matrices[:1]
    call = getattr(td, routine).ask(*paths, **options)
    job = open_job(call, "C.zarr")
    assert compute_in_waves(job, client).waves > 1
    assert same_bits(read("C.zarr"), getattr(td, routine)(*matrices, **options))


# --- layout ---------------------------------------------------------------------------


def count_tiles(*shape):
    grid = lay_out(shape, "c16", Cluster(2)).grid
    return len(grid.m), len(grid.n), len(grid.k)


def test_tiles_are_even_and_fit_the_worker_grid():
    layout = lay_out((3072, 3072, 3072), "c16", Cluster(4))
    assert layout.tile_shape == (768, 768, 1536)
    assert count_tiles(3072, 3072, 3072) == (3, 4, 2)
    # Workers share k where one tile holds all of C.
    assert count_tiles(300, 500, 90_000) == (1, 1, 44)
    assert count_tiles(10, 0, 5) == (1, 1, 1)
    # Those of devices are larger.
    for engine, side in (("cpu", 2048), ("cuda", 4096)):
        workers = Cluster(4, 1, MemoryBudget(64 * GIB))
        layout = lay_out((32768,) * 3, "c16", workers, engine=engine)
        assert layout.tile_shape == (side,) * 3
    # Waves are few, and keep every thread at work.
    workers = Cluster(4, 2, MemoryBudget(16 * GIB))
    waves = lay_out((40_000, 30_000, 20_000), "c16", workers).waves
    assert 1 < len(waves) < 30
    assert waves[0].size >= 8
    for tile in (0, 2.5, True, "x"):
        with raises(PlanError, "tile"):
            lay_out((8, 8, 8), "c16", Cluster(), tile=tile)


# --- errors and interrupts ------------------------------------------------------------


def test_after_an_interrupt_the_same_call_continues(client, files):
    before = visible(Path())
    run = partial(multiply, client=client)
    stop_after(1, run)
    wait_until(lambda: not task_names(client))
    assert visible(Path()) == before
    assert run().resumed > 0
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
