"""Updates of stored matrices: one triangle of tiles, and the bits of the routine."""

from functools import partial
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import contents, make, read, save
from tests.support.expect import raises
from tests.support.jobs import stop_after
from tests.support.layouts import lay_out
from twom_dist.api.files import update_files
from twom_dist.errors import StoreError
from twom_dist.jobs import driver
from twom_dist.plan import Cluster
from twom_dist.plan.memory import MemoryBudget
from twom_dist.plan.waves import cut_triangle

N, K = 45, 37
UPLOS = ["full", "lower", "upper"]
OUTPUTS = {"full": "C.zarr", "lower": "C.npz", "upper": "C.h5"}


@pytest.fixture
def files(here):
    """A, B and C0 in a folder of their own; A^T and B^T for the other op."""
    a, b, c = make(N, K, 1), make(N, K, 2), make(N, N, 3)
    matrices = {"A.zarr": a, "B.npy": b, "C0.h5": c, "AT.npy": a.T, "BT.zarr": b.T}
    for name, values in matrices.items():
        save(name, values)
    return a, b, c


def update(routine, output, op="N", **options):
    a, b = ("A.zarr", "B.npy") if op == "N" else ("AT.npy", "BT.zarr")
    two = {"b": b} if routine.endswith("2k") else {}
    return update_files(
        getattr(td, routine), a, output, op=op, **{"chunks": 16, **two, **options}
    )


def expect(routine, files, op="N", c=None, **options):
    matrices = files[: 2 if routine.endswith("2k") else 1]
    matrices = [x if op == "N" else x.T for x in matrices]
    added = [files[2]] if c else []
    return getattr(td, routine)(*matrices, *added, op=op, **options)


# --- the result ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("routine", "uplo"),
    # Each of both kinds, and of their twins one triangle.
    [*product(("herk", "syr2k"), UPLOS), ("syrk", "lower"), ("her2k", "upper")],
)
def test_the_file_has_the_bits_of_the_routine(files, routine, uplo):
    before, output = contents(Path()), OUTPUTS[uplo]
    seen = []
    summary = update(routine, output, uplo=uplo, progress=seen.append)
    assert same_bits(read(output), expect(routine, files, uplo=uplo))
    assert [(p.done, p.tiles) for p in seen] == [(i, 6) for i in range(1, 7)]
    share = 1 if routine.endswith("2k") else 2
    assert seen[-1].operations == 8 * N * N * K // share
    assert (summary.shape, summary.tiles) == ((N, N, K), (3, 3, 3))
    op, alpha = ("C", 2) if routine.startswith("he") else ("T", 2 - 1j)
    all_options = {"op": op, "uplo": uplo, "alpha": alpha, "beta": 0.5, "c": "C0.h5"}
    zeros = {"alpha": 0, "beta": 2, "c": "C0.h5"}
    # The zeros have the signs of those in memory.
    others = {"full": [zeros], "lower": [{"alpha": 0}], "upper": []}
    for options in (all_options, *others[uplo]):
        update(routine, output, overwrite=True, **options)
        assert same_bits(read(output), expect(routine, files, **options))
    found = contents(Path())
    assert {name: found[name] for name in before} == before
    assert not list(Path().glob(".*"))


def test_the_look_is_no_time_of_tiles(files, monkeypatch):
    now, look, seen = [5.0], driver.look_at_whole, []

    def look_for_long(*given):
        now[0] += 1000
        return look(*given)

    def count(progress):
        seen.append(progress.seconds)
        now[0] += 1

    monkeypatch.setattr(driver, "look_at_whole", look_for_long)
    monkeypatch.setattr(driver, "perf_counter", lambda: now[0])
    summary = update("herk", "C.npy", progress=count)
    assert (seen, summary.seconds) == ([0, 1, 2, 3, 4, 5], 1006)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i4"])
def test_every_dtype_and_a_matrix_with_itself(files, dtype):
    values = (8 * make(20, 20, 6, "f8")).astype(dtype)
    np.save("D.npy", values)
    summary = update_files(td.syr2k, "D.npy", "C.npy", b="D.npy", op="T", chunks=8)
    assert summary.operations == (8 if dtype[0] == "c" else 2) * 20**3
    assert same_bits(read("C.npy"), td.syr2k(values, values, op="T"))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_small_and_empty_shapes(files, shape):
    np.save("D.npy", np.ones(shape, "c16"))
    update_files(td.herk, "D.npy", "C.npy", uplo="lower")
    n, k = shape
    assert same_bits(read("C.npy"), np.tril(np.full((n, n), k, "c16")))


def test_a_tile_is_kept_with_its_image_and_undamaged(files):
    stop_after(6, partial(update, "herk", "C.npy"))
    (tiles,) = Path().glob(".C.npy.unfinished/*.zarr/c")
    Path(tiles, "0/1").unlink()
    tile = Path(tiles, "2/2")
    tile.write_bytes(tile.read_bytes()[:-4] + b"????")
    summary = update("herk", "C.npy")
    assert (summary.resumed, summary.damaged) == (4, 1)
    assert same_bits(read("C.npy"), expect("herk", files))


def test_a_chunk_that_was_written_again_is_another_input(files):
    stop_after(2, partial(update, "herk", "C.npy"))
    chunk = next(Path("A.zarr/c").glob("*/*"))
    chunk.write_bytes(chunk.read_bytes())
    with raises(StoreError, "unfinished-input-changed"):
        update("herk", "C.npy")


# --- one triangle ---------------------------------------------------------------------


@pytest.mark.parametrize("uplo", UPLOS)
def test_nothing_of_the_other_triangle_is_written(files, uplo):
    update("herk", "C.zarr", uplo=uplo)
    written = {tuple(map(int, p.parts[-2:])) for p in Path().glob("C.zarr/c/*/*")}
    lower = {(i, j) for i in range(3) for j in range(i + 1)}
    upper = {(j, i) for i, j in lower}
    assert written == {"full": lower | upper, "lower": lower, "upper": upper}[uplo]


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(("count", "width"), [(1, 1), (5, 5), (7, 2), (9, 4), (8, 3)])
def test_waves_cover_a_triangle_once(count, width, upper):
    covered = []
    for wave in cut_triangle(count, width, upper=upper):
        covered += wave.cells
        assert wave.size == len(wave.cells)
        assert len({index for cell in wave.cells for index in cell}) <= width
    # All on the diagonal, and of each pair beside it one.
    pairs = [*combinations(range(count), 2), *((i, i) for i in range(count))]
    assert sorted(covered if upper else [(j, i) for i, j in covered]) == sorted(pairs)


@pytest.mark.parametrize("routine", ["herk", "syr2k"])
def test_tiles_that_are_mirrored_in_writing_take_no_memory(routine):
    cluster = Cluster(4, 1, MemoryBudget(2**31))
    full, lower = (
        lay_out((28_000, 28_000, 1000), "c16", cluster, routine=routine, uplo=uplo)
        for uplo in ("full", "lower")
    )
    assert (full.grid, full.waves) == (lower.grid, lower.waves)
    assert len(full.waves) > 1
    nt = len(full.grid.n)
    assert full.num_computed == lower.num_computed == nt * (nt + 1) // 2
    plans = [x.plan(x.waves[0], cluster) for x in (full, lower)]
    assert plans[0].peak_worker_bytes == plans[1].peak_worker_bytes
    # There is room for encoded tiles.
    assert not any(full.plan(wave, cluster).cramped for wave in full.waves)
