"""Jobs on files: the bits of the routine in memory, and a residual within its bound."""

import os
from functools import partial
from itertools import product
from pathlib import Path

import dask
import h5py
import numpy as np
import pytest
import zarr

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.command import contents, make, read, save
from tests.support.expect import raises
from tests.support.jobs import at, stop_after
from tests.support.stored import left_behind
from twom_dist.errors import ArgumentError, KernelError, PlanError, StoreError
from twom_dist.store import Output, StoredMatrix, read_vector

N, K = 45, 60
UPLOS = ["full", "lower", "upper"]
W = np.linspace(-3, 5, K)
# Not looked for, which takes longest.
GIVEN = {"num_moduli": 14}


@pytest.fixture
def files(here):
    """A, B, C0 and weights in a folder of their own; A^T and B^T for the other op."""
    a, b, c = make(N, K, 1), make(N, K, 2), make(N, N, 3)
    # Columns are shifted against one another.
    b *= 2.0 ** (np.arange(K) % 20)
    matrices = {"A.zarr": a, "B.npy": b, "C0.h5": c, "AT.npy": a.T, "BT.zarr": b.T}
    for name, values in matrices.items():
        save(name, values)
    np.save("w.npy", W)
    return a, b, c


def run(routine, output="C.zarr", op="N", **options):
    """Multiply or update files, in tiles of 16."""
    a, b = ("A.zarr", "B.npy") if op == "N" else ("AT.npy", "BT.zarr")
    options = {"chunks": 16, **options}
    if routine == "gemm":
        return td.multiply_files(a, b, output, op_a=op, **options)
    two = {"b": b} if routine.endswith("2k") else {}
    return td.update_files(getattr(td, routine), a, output, op=op, **two, **options)


def expect(files, routine, op="N", c=None, **options):
    """Compute the same in memory."""
    a, b = files[:2] if op == "N" else (files[0].T, files[1].T)
    added = [files[2]] if c else []
    if options.get("diag") is not None:
        options["diag"] = W * (1j if routine == "gemm" else 1)
    if routine == "gemm":
        return td.gemm(a, b, *added, op_a=op, **options)
    given = [a, b] if routine.endswith("2k") else [a]
    return getattr(td, routine)(*given, *added, op=op, **options)


ADDED = {"alpha": 2, "beta": -0.5, "c": "C0.h5"}
CASES = [
    ("gemm", {"op_b": "C", "accuracy": "componentwise", **ADDED}),
    ("gemm", {"op_b": "T", "diag": W * 1j, **GIVEN}),
    ("gemm", {"op": "T", "alpha": 2 - 1j, "accuracy": 1e-6}),
    ("gemm", {"op_b": "C", "equilibrate": True}),
    ("her2k", {"uplo": "lower", "equilibrate": True}),
    ("herk", {**ADDED}),
    ("herk", {"op": "C", "uplo": "lower", "diag": "w.npy"}),
    ("syrk", {"op": "T", "uplo": "upper", "alpha": 2j, **GIVEN}),
    ("her2k", {"uplo": "upper", "alpha": 1 + 2j, "beta": 0.5, "c": "C0.h5"}),
    ("syr2k", {"uplo": "lower", "accuracy": "componentwise", **ADDED}),
]
OUTPUTS = {"full": "C.zarr", "lower": "C.npz", "upper": "C.h5"}


@pytest.mark.parametrize(("routine", "options"), CASES)
@pytest.mark.parametrize("streams", [False, True])
def test_the_file_has_the_bits_of_the_routine(
    request, files, routine, options, streams
):
    """Where tiles are held, and where each task reads its own."""
    if streams:
        request.getfixturevalue("streaming")
    before, seen = contents(Path()), []
    output = OUTPUTS[options.get("uplo", "full")]
    summary = run(routine, output, verify=True, progress=seen.append, **options)
    assert same_bits(read(output), expect(files, routine, **options))
    assert 0 < summary.residual <= summary.residual_bound
    assert f"residual {summary.residual:.1e}" in str(summary)
    count = 9 if routine == "gemm" else 6
    assert [(p.done, p.tiles) for p in seen] == [(i + 1, count) for i in range(count)]
    found = contents(Path())
    assert {name: found[name] for name in before} == before
    assert left_behind() == []


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i4"])
def test_every_dtype_and_a_matrix_with_itself(here, dtype):
    values = (8 * make(20, 20, 6, "f8")).astype(dtype)
    np.save("D.npy", values)
    summary = td.update_files(td.syr2k, "D.npy", "C.npy", b="D.npy", op="T", chunks=8)
    assert summary.operations == (8 if dtype[0] == "c" else 2) * 20**3
    assert same_bits(read("C.npy"), td.syr2k(values, values, op="T"))


@cases("shape", [(0, 3), (3, 0), (1, 1)])
def test_small_and_empty_shapes(here, shape):
    np.save("D.npy", np.ones(shape, "c16"))
    n, k = shape
    td.update_files(td.herk, "D.npy", "C.npy", uplo="lower", overwrite=True)
    assert same_bits(read("C.npy"), np.tril(np.full((n, n), k, "c16")))
    td.multiply_files("D.npy", "D.npy", "C.npy", op_b="T", overwrite=True)
    assert same_bits(read("C.npy"), np.full((n, n), k, "c16"))


def test_zeros_have_the_signs_of_those_in_memory(files):
    for routine, options in product(
        ("herk", "syr2k"), ({"alpha": 0}, {"alpha": 0, "beta": 2, "c": "C0.h5"})
    ):
        run(routine, overwrite=True, **options)
        assert same_bits(read("C.zarr"), expect(files, routine, **options))


@cases("uplo", UPLOS)
def test_nothing_of_the_other_triangle_is_written(files, uplo):
    run("herk", f"{uplo}.zarr", uplo=uplo, **GIVEN)
    written = {tuple(map(int, p.parts[-2:])) for p in Path().glob(f"{uplo}.zarr/c/*/*")}
    lower = {(i, j) for i in range(3) for j in range(i + 1)}
    upper = {(j, i) for i, j in lower}
    assert written == {"full": lower | upper, "lower": lower, "upper": upper}[uplo]


def test_a_tile_on_the_diagonal_is_read_once(files, streaming, monkeypatch):
    read_region, reads = StoredMatrix.__getitem__, []

    def count(self, index):
        reads.append(index)
        return read_region(self, index)

    monkeypatch.setattr(StoredMatrix, "__getitem__", count)
    run("herk", chunks=48, **GIVEN)
    # For the largest exponents, for the sums of squares, and to multiply.
    assert len(reads) == 3 * -(-K // 48)


# --- stopped jobs ---------------------------------------------------------------------


def test_a_job_goes_on_where_it_was_stopped(files, streaming):
    a = files[0]
    a[3, 50] = np.nan
    np.save("A.npy", a)
    job = partial(td.update_files, td.herk, "A.npy", "C.zarr", chunks=8)
    stop_after(4, job)
    assert job().resumed >= 4
    assert same_bits(read("C.zarr"), td.herk(a))


def test_a_tile_is_kept_with_its_image_and_undamaged(files):
    stop_after(6, partial(run, "herk", "C.npy"))
    (tiles,) = Path().glob(".C.npy.unfinished/*.zarr/c")
    Path(tiles, "0/1").unlink()
    tile = Path(tiles, "2/2")
    tile.write_bytes(tile.read_bytes()[:-4] + b"????")
    summary = run("herk", "C.npy")
    assert (summary.resumed, summary.damaged) == (4, 1)
    assert same_bits(read("C.npy"), td.herk(files[0]))


def test_inputs_that_change_are_noticed(files, streaming):
    save("D.npy", make(N, K, 5))
    job = partial(td.update_files, td.herk, "D.npy", "H.npy", chunks=8)
    save("other.npy", make(N, K, 9))
    with raises(StoreError, "input-changed"):
        job(progress=at(1, partial(os.replace, "other.npy", "D.npy")))
    stop_after(2, partial(run, "herk", "C.npy"))
    # A chunk that was written again is another input.
    chunk = next(Path("A.zarr/c").glob("*/*"))
    chunk.write_bytes(chunk.read_bytes())
    with raises(StoreError, "unfinished-input-changed"):
        run("herk", "C.npy")


def test_another_diagonal_is_another_job(files):
    job = partial(run, "gemm", op_b="T", **GIVEN)
    np.save("row.npy", W[np.newaxis].astype(">f8"))
    stop_after(1, partial(job, diag="w.npy"))
    with raises(StoreError, "unfinished-differs"):
        job(diag=-W)
    assert job(diag="row.npy").resumed > 0


def test_a_folder_that_was_moved_can_be_moved_back(files):
    """A writer under way may have made a part of it again."""
    hidden = Path(".C.npy.unfinished")

    def move():
        hidden.rename("moved")
        (hidden / "0123456789ab.zarr" / "c").mkdir(parents=True)

    with raises(StoreError, "file-missing") as stopped:
        run("gemm", "C.npy", op_b="T", progress=at(5, move))
    assert "move it back" in stopped.value.remedy
    Path("moved").rename(hidden)
    assert run("gemm", "C.npy", op_b="T").resumed >= 5


# --- vectors --------------------------------------------------------------------------


def test_vectors_of_every_format(here):
    np.save("row.npy", W[np.newaxis].astype(">f8"))
    np.savez("w.npz", w=W, other=W)
    with h5py.File("w.h5", "w") as file:
        file["grid/w"] = W
    zarr.save("w.zarr", W)
    zarr.open_group("g.zarr", mode="w")["w"] = W
    for path in ("row.npy", "w.npz::w", "w.h5::grid/w", "w.zarr"):
        assert same_bits(read_vector(path), W)
    for path in ("w.npz", "w.h5", "g.zarr"):
        with raises(StoreError, "no-member") as unnamed:
            read_vector(path)
        assert "w'" in unnamed.value.problem.partition(" is meant: ")[2]
        with raises(StoreError, "no-such-member"):
            read_vector(f"{path}::misspelt")


def test_refusals(files, call):
    with raises(StoreError, "vector-shape"):
        read_vector("B.npy")
    with raises(ArgumentError, "diag-complex"):
        run("herk", diag=W * 1j)
    with h5py.File("w.h5", "w") as file:
        file["w"] = W
    for diag, output in (("w.npy", "w.npy"), ("w.h5::w", "w.h5::C")):
        with raises(PlanError, "output-is-input"):
            run("gemm", output, op_b="T", diag=diag, overwrite=True)
    for chunks in [(3, 3), (0, 3, 3), (1.5, 3, 3), 0, 2.5, "3", [3], True]:
        with raises(PlanError, "tile"):
            run("herk", chunks=chunks)
    expressions = dask.config.set({"array.query-planning": True})
    with expressions, raises(PlanError, "verify-expressions"):
        run("herk", verify=True)
    assert left_behind() == []
    # What is said of a diagonal.
    for diag, told in (("w.npy", f"{os.getcwd()}/w.npy"), (W, "in memory")):
        run("gemm", op_b="T", diag=diag, overwrite=True, **GIVEN)
        assert f"/B.npy, diag {told}, " in call("info", "C.zarr")[1]
    given = td.explain(td.gemm, "A.zarr", "B.npy", op_b="T", diag="w.npy")
    assert "|diag|" in str(td.plan(td.herk, "A.zarr", diag="w.npy"))
    assert given.rho == td.explain(td.gemm, *files[:2], op_b="T", diag=W).rho


# --- the residual ---------------------------------------------------------------------


def test_a_wrong_result_gets_no_name(files, here, monkeypatch):
    """As where a worker's memory is bad."""
    write, before = Output.write, sorted(here.iterdir())
    for error, cell in product((1e-9, np.nan, np.inf), ((0, 0), (0, 2))):

        def damage(output, i, j, tile, error=error, cell=cell):
            tile = np.array(tile)
            tile[0, 0] += error if (i, j) == cell else 0
            write(output, i, j, tile)

        monkeypatch.setattr(Output, "write", damage)
        with raises(KernelError, "wrong-result"):
            run("herk", "C.npy", verify=True, **GIVEN)
        assert sorted(here.iterdir()) == before


def test_no_scale_hides_an_error_or_looks_like_one(here):
    a, b = make(40, 24, 0), make(24, 40, 1)
    np.save("C0.npy", make(40, 40, 2))
    np.save("small.npy", 1e-160 * a)
    np.save("large.npy", 1e200 * b)
    paths, given = ("small.npy", "large.npy", "C.npy"), {"verify": True, **GIVEN}
    multiply = partial(td.multiply_files, *paths, overwrite=True, **given)
    added = {"alpha": 1e-58, "c": "C0.npy", "beta": 1e-18}
    for options in ({"alpha": 1e-160}, added):
        summary = multiply(chunks=16, **options)
        assert summary.residual <= summary.residual_bound
    # Where results underflow, their rounding is no error.
    for scale in (1e-150, 1e-160, 1e-300):
        np.save("tiny.npy", scale * a)
        td.update_files(td.herk, "tiny.npy", "U.npy", overwrite=True, **given)
    # One row is not a number; the others are checked.
    a[3, 5] = np.nan
    np.save("small.npy", a)
    assert 0 < (summary := multiply()).residual <= summary.residual_bound
    np.save("small.npy", np.full((40, 24), np.inf))
    summary = multiply()
    assert np.isnan(summary.residual)
    assert '"residual": null' in summary.to_json()
    # Nor is an overflow an error of the machine.
    np.save("A.npy", np.array([[1e200, 1e200], [1, 2]]))
    summary = td.multiply_files("A.npy", "A.npy", "C.npy", overwrite=True, **given)
    assert summary.residual <= summary.residual_bound
    assert np.isinf(np.load("C.npy")[0, 0])


@cases("options", [GIVEN, {"accuracy": 1e-9}, {}])
def test_a_job_that_may_shift_columns_and_shifts_none(here, options):
    a = make(12, 9, 1)
    np.save("A.npy", a)
    given = {"equilibrate": True, **options}
    more = {"overwrite": True, "verify": True}
    td.multiply_files("A.npy", "A.npy", "C.npy", op_b="C", **more, **given)
    assert (np.load("C.npy") == td.gemm(a, a, op_b="C", **given)).all()
    td.update_files(td.her2k, "A.npy", "C.npy", b="A.npy", **more, **given)
    assert (np.load("C.npy") == td.her2k(a, a, **given)).all()
