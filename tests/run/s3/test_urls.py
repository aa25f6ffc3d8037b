"""Matrices at URLs: read, on a real S3 server, too; outputs are files."""

from importlib.util import find_spec

import numpy as np
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem

import twom_dist as td
from tests.support.buckets import save, serve_bucket
from tests.support.cases import cases
from tests.support.command import CommandLine, make
from tests.support.expect import raises, same_bits
from tests.support.jobs import at
from twom_dist.errors import StoreError
from twom_dist.store import open_matrix

BUCKET = "s3://bucket"
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("here"),
]


@pytest.fixture(scope="module")
def matrices():
    a, b = make(80, 32, 1), make(32, 64, 2)
    with serve_bucket("bucket") as url:
        save(f"{url}/A.zarr", a)
        save(f"{url}/B.zarr", b, name="g/B")
        yield a, b


@pytest.fixture
def memory():
    save("memory://folder/A.zarr", make(64, 64, 4))
    yield "memory://folder"
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@cases(
    ("left", "output", "code"),
    [
        ("A.zarr", "C.zarr", "url-output"),
        ("none.zarr", "", "file-missing"),
        ("A.npy", "", "url-format"),
    ],
)
def test_a_url_that_does_not_do_is_refused(memory, left, output, code):
    before = dict(MemoryFileSystem.store)
    output = f"{memory}/{output}" if output else "C.zarr"
    with raises(StoreError, code):
        td.multiply_files(f"{memory}/{left}", f"{memory}/A.zarr", output)
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


def test_products_of_what_is_in_a_bucket(matrices):
    a, b = matrices
    paths = f"{BUCKET}/A.zarr", f"{BUCKET}/B.zarr/g/B"
    given = {"chunks": 16, "num_moduli": 16}
    td.multiply_files(*paths, "C.npy", **given)
    assert same_bits(np.load("C.npy"), td.gemm(a, b, num_moduli=16))


def test_an_input_that_changes_in_the_bucket_is_noticed(matrices):
    a, _ = matrices
    save(f"{BUCKET}/D.zarr", a)

    def change():
        array = zarr.open_array(f"{BUCKET}/D.zarr", mode="r+")
        array[-1, -1] = 7

    with raises(StoreError, "input-changed"):
        td.rank_k_files(
            *(td.herk, f"{BUCKET}/D.zarr", "E.zarr"),
            chunks=16,
            num_moduli=16,
            progress=at(2, change),
        )


def test_a_bucket_that_does_not_exist_is_refused(matrices, capsys):
    product = ("gemm", "s3://none/A.zarr", f"{BUCKET}/A.zarr", "-o", "N.zarr")
    code, out, err = CommandLine(capsys)(*product, "--n-workers", "0")
    assert (code, out, err.startswith("twom-dist: error: ")) == (2, "", True)
    assert "s3://none/" in err
