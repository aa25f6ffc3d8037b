"""What is no matrix is refused by its code: not waited for, loaded, or read as one."""

import errno
import os
import pickle
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zarr
from numpy.lib import format as npy_format

import twom_dist as td
from tests.support.disk import failing
from tests.support.expect import raises
from tests.support.stored import NAMES, assert_same_bits, make_matrix, save
from twom_dist.errors import PlanError, StoreError
from twom_dist.store import find_unfinished, open_matrix, read_vector

pytestmark = pytest.mark.usefixtures("here")

# Names that are not UTF-8 are known to be none before a job has computed all.
PATHS = {
    "path-suffix": ["", "A.txt", "data.h5:g/B", "data.h5/g/B", "data.h5:/g/B"],
    "url-format": ["s3://bucket/A.npy"],
    "path-zero": ["a::b/A\0.npy"],
    "path-member": [
        *("A.npy::B", "A.zarr::B\0C", "A.h5::", "A.h5::g/\udcff"),
        *("A.h5::B\0C", "s.zarr::../t.zarr"),
    ],
}


def test_paths_that_name_no_matrix():
    for code, paths in PATHS.items():
        for path in paths:
            for find in (open_matrix, find_unfinished):
                with raises(StoreError, code):
                    find(path)
    with raises(StoreError, "no-folder"), find_unfinished("none/C.npy").lock():
        pass


def hold(path):
    """Store an array of four axes under a name."""
    values = np.zeros((1, 2, 3, 4))
    if path == "t.zarr":
        zarr.open_group(path, mode="w")["voltage"] = values
    else:
        save(f"{path}::voltage", values)


def write_header(shape):
    with open("A.npy", "wb") as stream:
        header = {"descr": "<f8", "fortran_order": False, "shape": shape}
        npy_format.write_array_header_1_0(stream, header)
        stream.write(bytes(120 * 80 * 8))


def write_version(*version):
    save("A.npy", make_matrix())
    data = bytearray(Path("A.npy").read_bytes())
    data[6:8] = bytes(version)
    Path("A.npy").write_bytes(data)


def set_pipe(path, form):
    group = zarr.open_group("Z.zarr", mode="w", zarr_format=form)
    group.create_array("A", data=np.eye(3))
    Path("Z.zarr", path).unlink(missing_ok=True)
    os.mkfifo(f"Z.zarr/{path}")


def damage(path):
    Path(path).mkdir()
    Path(path, "zarr.json").write_text("{")


VERSIONS = [(9, 0), (1, 1), (0, 0)]
AXES = [(), (3,), (2, 2, 2)]
NEGATIVE = [(-120, 80), (-120, -80), (120, -1)]
# Each format has dtypes of its own.
FOREIGN = [
    (x, y) for x in ("npy", "npz", "h5") for y in ("f2", "g", "G", "S3", "i4,f8")
]
FOREIGN += [("npy", "M8[s]"), ("npz", "M8[s]"), ("zarr", "f2")]
PIPES = [("A/zarr.json", "::A", 3), (".zattrs", "::A", 2), ("A/.zattrs", "::A", 2)]
# What is made, what is opened, and the code.
REFUSED = [
    *((partial(Path(x).write_text, "no"), x, "file-damaged") for x in NAMES[1:]),
    (partial(Path("A.zarr").write_text, "no"), "A.zarr", "no-matrix"),
    *((Path(x).mkdir, x, "file-kind") for x in NAMES[1:]),
    (Path("A.zarr").mkdir, "A.zarr", "no-matrix"),
    (partial(damage, "A.zarr"), "A.zarr", "file-damaged"),
    (partial(os.symlink, "A.npy", "A.npy"), "A.npy", "file-kind"),
    (partial(os.symlink, "A.npy", "A.npy"), "A.npy/A.npy", "file-kind"),
    (Path("file").touch, "file/A.npy", "file-missing"),
    # It would be waited for.
    (partial(os.mkfifo, "A.npy"), "A.npy", "file-kind"),
    *((partial(set_pipe, x, z), f"Z.zarr{y}", "file-kind") for x, y, z in PIPES),
    *((partial(write_header, x), "A.npy", "matrix-shape") for x in NEGATIVE),
    *((partial(write_version, *x), "A.npy", "file-damaged") for x in VERSIONS),
    *((partial(hold, x), x, "no-matrix") for x in ("t.zarr", "t.h5", "t.npz")),
    (partial(save, "A.zarr", np.eye(3)), "A.zarr::A", "no-such-member"),
    (partial(save, "A.zarr", np.eye(3)), "A.zarr::g/A", "no-such-member"),
    *(
        (partial(save, x, np.zeros(y), "auto"), x, code)
        for code in ("matrix-shape", "no-matrix")
        for x in (NAMES[:2] if code == "matrix-shape" else NAMES[2:])
        for y in AXES
    ),
    *(
        (partial(save, f"A.{x}", np.zeros((2, 3), y)), f"A.{x}", "matrix-dtype")
        for x, y in FOREIGN
    ),
]


def test_what_is_no_matrix_is_refused(here):
    for number, (make, path, code) in enumerate(REFUSED):
        (here / str(number)).mkdir()
        os.chdir(here / str(number))
        make()
        with raises(StoreError, code):
            open_matrix(path)


def test_what_holds_no_pairs_is_refused():
    pairs, two = np.zeros((4, 3, 2), "i1"), np.zeros((4, 2), "i1")
    for values, code in (
        (two, "pairs-shape"),
        (pairs[..., :1], "pairs-shape"),
        (pairs[np.newaxis], "pairs-shape"),
        (pairs * 1.0, "pairs-dtype"),
        (pairs * 1j, "pairs-dtype"),
    ):
        for name in NAMES:
            save(name, values, values.shape)
            missing = name not in NAMES[:2] and values.ndim != 3
            with raises(StoreError, "no-matrix" if missing else code):
                open_matrix(name, pairs=True)
            shutil.rmtree(name, ignore_errors=True)
    # Nor are pairs a matrix, unless that is said.
    for name in NAMES:
        save(name, pairs, pairs.shape)
        code = "matrix-shape" if name in NAMES[:2] else "no-matrix"
        with raises(StoreError, code) as caught:
            open_matrix(name)
        assert "pairs=True" in caught.value.remedy


CHUNKS = [({"zarr_format": 2}, "1.2"), ({}, "c/1/2")]
CHUNKS += [({"chunks": (1, 3), "shards": (2, 3)}, "c/1/2")]


@pytest.mark.parametrize("kind", [os.mkfifo, os.mkdir, partial(os.symlink, "none")])
@pytest.mark.parametrize(("options", "name"), CHUNKS)
def test_a_chunk_that_is_no_file_is_refused(kind, options, name):
    values = make_matrix()
    zarr.create_array("A.zarr", data=values, **{"chunks": (2, 3), **options})
    matrix, chunk = open_matrix("A.zarr"), Path("A.zarr", name)
    chunk.unlink()
    kind(chunk)
    for region in (np.s_[:, :], np.s_[3:4, 6:7]):
        with raises(StoreError, "file-kind"):
            matrix[region]
    for region in (np.s_[2:, :6], np.s_[:2, :]):
        assert_same_bits(matrix[region], values[region])


def test_chunks_of_a_vector_are_looked_at():
    zarr.create_array("w.zarr", data=np.arange(9.0), chunks=(3,))
    os.unlink("w.zarr/c/1")
    os.mkfifo("w.zarr/c/1")
    with raises(StoreError, "file-kind"):
        read_vector("w.zarr")
    save("v.zarr", np.arange(4.0), (2,))
    text = Path("v.zarr/zarr.json").read_text()
    for chunk in ("v.zarr/c/0", "v.zarr/c/1"):
        os.unlink(chunk)
    Path("v.zarr/zarr.json").write_text(text.replace("[4]", f"[{10**15}]", 1))
    with raises(StoreError, "no-chunks"):
        read_vector("v.zarr")


def test_a_matrix_of_any_claimed_size_is_refused_at_once():
    zarr.create_array("A.zarr", shape=(10**9, 10**9), chunks=(1000, 1000), dtype="f8")
    with raises(PlanError, "many-tiles"):
        td.plan(td.rank_k_files, td.herk, "A.zarr", n_workers=2)
    chunks = (2**40, 10**9 + 7)
    zarr.create_array("B.zarr", shape=(3000, 3000), chunks=chunks, dtype="f8")
    plan = td.plan(td.rank_k_files, td.herk, "B.zarr", n_workers=2, num_moduli=8)
    assert max(plan.tile_shape) <= 3000


def test_pickled_objects_are_refused_and_not_loaded():
    class Trap:
        def __reduce__(self):
            return Path.touch, (Path("sprung").absolute(),)

    values = np.full((2, 2), Trap())
    np.save("A.npy", values, allow_pickle=True)
    np.savez("A.npz", A=values)
    Path("B.npy").write_bytes(pickle.dumps(Trap()))
    for name in ("A.npy", "A.npz", "B.npy"):
        with raises(StoreError, "file-damaged" if name == "B.npy" else "matrix-dtype"):
            open_matrix(name)
    assert not Path("sprung").exists()


@pytest.mark.parametrize("name", ["C.npy", "C.npz", "C.h5"])
def test_every_truncated_file_is_found_at_once(name):
    save(name, make_matrix())
    whole = Path(name).read_bytes()
    for length in range(0, len(whole), 31):
        Path(name).write_bytes(whole[:length])
        with pytest.raises(StoreError) as caught:
            open_matrix(name)
        assert caught.value.code in ("file-truncated", "file-damaged")


def test_what_is_compressed_and_large_is_not_unpacked_for_each_tile():
    np.savez_compressed("A.npz", A=np.zeros((1025, 2**13)))
    with raises(StoreError, "npz-compressed"):
        td.rank_k_files(td.herk, "A.npz", "C.npy", num_moduli=16)
    assert os.listdir() == ["A.npz"]


def test_a_store_that_may_not_be_looked_into_is_not_taken_for_none():
    save("A.zarr", np.eye(2))
    with failing("scandir", number=errno.EACCES):  # root may do anything
        for find in (open_matrix, read_vector):
            with raises(StoreError, "no-permission"):
                find("A.zarr")
