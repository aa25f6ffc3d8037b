"""zarr arrays and HDF5 datasets: read where they are computed, in whole chunks."""

import dask.array as da
import h5py
import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from twom_dist.errors import ArgumentError, PlanError

A, B = td.testing.random_matrix(50, 70), td.testing.random_matrix(70, 40)
AB = td.gemm(A, B)


@pytest.fixture
def file(here):
    with h5py.File(here / "data.h5", "w") as file:
        file.create_dataset("B", data=B, chunks=(10, 10))
        file.create_dataset("whole", data=B.astype(">c16"))
        file.create_dataset("empty", data=h5py.Empty("f8"))
        yield file


@pytest.mark.parametrize("options", [{}, {"shards": (16, 18)}, {"zarr_format": 2}])
def test_products_are_lazy_and_read_what_is_stored(options, here, file):
    stored = zarr.create_array(here / "A.zarr", data=A, chunks=(8, 9), **options)
    for right in (file["B"], file["whole"], B):
        found = td.gemm(stored, right)
        assert isinstance(found, da.Array)
        assert same_bits(found.compute(), AB)
    assert same_bits(td.herk(stored).compute(), td.herk(A))
    explained = td.explain(td.gemm, stored, file["B"])
    assert explained.num_moduli == td.explain(td.gemm, A, B).num_moduli


def test_a_file_that_has_changed_is_another_matrix(file):
    before = td.gemm(A, file["B"])
    file["B"][...] = 2 * B
    after = td.gemm(A, file["B"])
    assert before.name != after.name


TILES = [
    ((20000, 20000), (100, 100), 2000),
    ((20000, 3000), (16, 512), 2048),
    ((20000, 20000), (4096, 4096), 4096),
    # Strips are read once, as many as a tile has entries, and then cut.
    ((20000, 20000), (1, 20000), 2048),
    ((20000, 20000), (20000, 1), 2048),
    ((1000, 100, 100), (1, 100, 100), 419),
    ((30, 5000, 5000), (1, 5000, 5000), 1),
    ((0, 70), (8, 9), 0),
]


@cases(("shape", "chunks", "tile"), TILES)
def test_tiles_are_whole_chunks_where_these_are_small(shape, chunks, tile):
    options = {"shape": shape, "chunks": chunks, "dtype": "c16"}
    stored = zarr.create_array(MemoryStore(), **options)
    product = td.gemm(stored, da.ones((shape[-1], 1)), num_moduli=9)
    assert max(product.chunks[0]) == tile
    if stored.ndim == 2:
        plan = td.plan(td.gemm, stored, (shape[-1], 1), num_moduli=9)
        assert plan.grid.m == product.chunks[0]


def test_what_is_no_matrix_is_refused(here, file):
    np.save(here / "A.npy", A)
    group = zarr.open_group(here / "group.zarr", mode="w")
    line = zarr.create_array(MemoryStore(), data=B[0], chunks=(8,))
    stored = zarr.create_array(here / "C.zarr", data=AB, chunks=(8, 9))
    of_file, none = file["B"], "not-a-matrix"
    given = [group, file, file["empty"], of_file.astype("c8")]
    calls = [(ArgumentError, none, lambda x=x: td.gemm(x, B)) for x in given]
    calls += [
        (PlanError, "not-two-dimensional", lambda: td.gemm(line, B)),
        # A result on disk is nobody's out.
        (ArgumentError, "out", lambda: td.gemm(A, B, out=stored)),
        (PlanError, "out", lambda: td.herk(stored, out=np.zeros((50, 50), complex))),
    ]
    for kind, code, call in calls:
        with raises(kind, code):
            call()
    file.close()
    for call in (
        lambda: td.gemm(A, of_file),
        lambda: td.rank_k_files(td.herk, "A.npy", "C.npy", diag=of_file),
    ):
        with raises(ArgumentError, none):
            call()
