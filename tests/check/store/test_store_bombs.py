"""Stores whose metadata claim too much, or lead round in circles."""

import gzip
import os
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import GzipCodec

import twom_dist as td
from tests.support.expect import raises
from tests.support.stored import assert_same_bits, everything, save
from twom_dist.errors import PlanError, StoreError
from twom_dist.plan.chunks import choose_tile_shape
from twom_dist.plan.cluster import Cluster
from twom_dist.store import open_matrix, read_vector

pytestmark = pytest.mark.usefixtures("here")
# Before zarr 3.1.6 every chunk makes a codec of its own.
TWICE = [
    {"zarr_format": 2, "compressors": [numcodecs.GZip()], "filters": [numcodecs.GZip()]}
]
if hasattr(GzipCodec, "_gzip_codec"):
    TWICE += [{"compressors": [GzipCodec(), GzipCodec()]}]
    TWICE += [{**TWICE[1], "shards": (1024, 1024)}]


@pytest.mark.parametrize("options", TWICE)
def test_a_chunk_unpacks_to_no_more_than_it_holds(options, monkeypatch):
    whole, sizes, read = (1024, 1024), [], gzip.GzipFile.read
    array = zarr.create_array("A.zarr", data=np.ones(whole), chunks=whole, **options)
    metadata = Path(
        "A.zarr", "zarr.json" if array.metadata.zarr_format == 3 else ".zarray"
    )
    metadata.write_text(metadata.read_text().replace("1024", "8"))

    def count(self, size=-1):
        sizes.append(len(found := read(self, size)))
        return found

    monkeypatch.setattr(gzip.GzipFile, "read", count)
    with raises(StoreError, "file-damaged"):
        everything("A.zarr")
    assert max(sizes) < 2**14


def test_a_chunk_of_any_claimed_size_is_planned_at_once():
    chunks = (2**40, 10**9 + 7, 1)
    shape = (3000, 3000, 3000)
    found = choose_tile_shape(shape, Cluster(2), 1000, chunks)
    assert max(found) <= 2048


def test_a_matrix_of_any_claimed_size_is_refused_at_once():
    zarr.create_array("A.zarr", shape=(10**9, 10**9), chunks=(1000, 1000), dtype="f8")
    with raises(PlanError, "many-tiles"):
        td.plan(td.update_files, td.herk, "A.zarr", n_workers=2)


@pytest.mark.parametrize("form", [2, 3])
def test_a_pipe_beside_a_matrix_is_not_waited_for(form):
    group = zarr.open_group("Z.zarr", mode="w", zarr_format=form)
    group.create_array("A", data=np.eye(3))
    group.create_group("g")
    (metadata,) = Path("Z.zarr/g").glob("*.json" if form == 3 else ".zgroup")
    metadata.unlink()
    os.mkfifo(metadata)
    with raises(StoreError, "file-kind"):
        open_matrix("Z.zarr")
    assert_same_bits(everything("Z.zarr::A"), np.eye(3))


def test_links_to_groups_above_are_not_followed_for_ever():
    group = zarr.open_group("Z.zarr", mode="w")
    group.create_group("g").create_array("A", data=np.eye(3))
    for name in ("one", "two"):
        os.symlink("..", f"Z.zarr/g/{name}")
    assert open_matrix("Z.zarr").location.member == "g/A"


def test_chunks_of_a_vector_that_are_pipes_are_not_waited_for():
    zarr.create_array("w.zarr", data=np.arange(9.0), chunks=(3,))
    os.unlink("w.zarr/c/1")
    os.mkfifo("w.zarr/c/1")
    with raises(StoreError, "file-kind"):
        read_vector("w.zarr")
    save("v.zarr", np.arange(4.0), (2,))
    text = Path("v.zarr/zarr.json").read_text()
    os.unlink("v.zarr/c/0")
    os.unlink("v.zarr/c/1")
    Path("v.zarr/zarr.json").write_text(text.replace("[4]", f"[{10**15}]", 1))
    with raises(StoreError, "no-chunks"):
        read_vector("v.zarr")
