"""Matrices at URLs: read, written, killed and continued on a real S3 server."""

from functools import partial
from importlib.util import find_spec

import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.buckets import remove, save, serve_matrices
from tests.support.cases import cases
from tests.support.command import CommandLine, make
from tests.support.expect import raises
from tests.support.jobs import at, stop_after
from twom_dist.errors import PlanError, StoreError
from twom_dist.store import open_matrix

BUCKET = "s3://bucket"
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def matrices():
    with serve_matrices() as stored:
        yield stored


@pytest.fixture
def square():
    """Store a matrix in the memory of this process; name it, twice, and an output."""
    a = make(64, 64, 4)
    save("memory://folder/A.zarr", a)
    yield a, tuple(f"memory://folder/{x}.zarr" for x in "AAC")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@cases(
    ("left", "output", "kind", "code"),
    [
        ("A.zarr", "A.zarr", PlanError, "output-is-input"),
        ("A.zarr", "A.zarr/C.zarr", PlanError, "output-is-input"),
        ("A.zarr", "C.zarr::C", StoreError, "url-member"),
        ("none.zarr", "C.zarr", StoreError, "file-missing"),
        ("A.npy", "C.zarr", StoreError, "url-format"),
        ("A.zarr", "C.npy", StoreError, "url-format"),
    ],
)
def test_a_url_that_does_not_do_is_refused(square, left, output, kind, code):
    before = dict(MemoryFileSystem.store)
    left, right, output = (f"memory://folder/{x}" for x in (left, "A.zarr", output))
    with raises(kind, code):
        td.multiply_files(left, right, output)
    assert dict(MemoryFileSystem.store) == before


@cases(
    ("url", "code"),
    [
        *([] if find_spec("gcsfs") else [("gs://bucket/A.zarr", "no-cloud")]),
        ("gopher://x/A.zarr", "unknown-protocol"),
        ("file://A.zarr", "url-format"),
        ("https://me:secret@host/A.zarr", "url-credentials"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(url, code):
    with raises(StoreError, code) as caught:
        open_matrix(url)
    assert "secret" not in str(caught.value)


def test_an_output_is_continued_as_a_file_is_and_never_replaced(square):
    a, paths = square
    run = partial(td.multiply_files, *paths, chunks=16)
    stop_after(5, run)
    with raises(StoreError, "input-unfinished"):
        open_matrix(paths[2])
    with raises(StoreError, "unfinished-differs"):
        run(alpha=2)
    assert run().resumed >= 5
    for overwrite in (False, True):
        with raises(StoreError, "output-exists"):
            run(overwrite=overwrite)
    found = open_matrix(paths[2])
    assert same_bits(found[:, :], td.gemm(a, a))
    assert found.provenance()["complete"]


def test_what_another_run_has_made_is_neither_taken_nor_removed(square):
    a, paths = square

    def replace():
        remove(paths[2])
        td.multiply_files(*paths, chunks=32, alpha=2)

    with raises(StoreError, "tiles-gone"):
        td.multiply_files(*paths, chunks=16, progress=at(16, replace))
    assert same_bits(open_matrix(paths[2])[:, :], td.gemm(a, a, alpha=2))


def test_an_input_that_changes_in_the_bucket_is_noticed(matrices):
    a, _ = matrices
    save(f"{BUCKET}/D.zarr", a)

    def change():
        array = zarr.open_array(f"{BUCKET}/D.zarr", mode="r+")
        array[-1, -1] = 7

    paths = (f"{BUCKET}/D.zarr", f"{BUCKET}/E.zarr")
    with raises(StoreError, "input-changed"):
        td.update_files(
            td.herk, *paths, chunks=16, num_moduli=16, progress=at(2, change)
        )
    with raises(StoreError, "file-missing"):
        open_matrix(f"{BUCKET}/E.zarr")


def test_a_bucket_that_does_not_exist_is_refused(matrices, capsys):
    command = CommandLine(capsys)
    source = f"{BUCKET}/A.zarr"
    for paths in (
        ("s3://none/A.zarr", source, "-o", f"{BUCKET}/N.zarr"),
        (source, source, "--op-b", "C", "-o", "s3://none/N.zarr"),
    ):
        code, out, err = command("gemm", *paths, "--n-workers", "0")
        *_, last = err.splitlines()  # after what is kept of a job that had begun
        assert (code, out, last.startswith("twom-dist: error: ")) == (2, "", True)
        assert "s3://none/" in last
