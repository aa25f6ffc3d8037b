"""What is no matrix is refused by its code: not waited for, loaded, or read as one."""

import os
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zarr
from numpy.lib import format as npy_format

import twom_dist as td
from tests.support.expect import raises
from tests.support.stored import NAMES, assert_same_bits, everything, make_matrix, save
from twom_dist.errors import ArgumentError, PlanError, StoreError
from twom_dist.store import find_unfinished, open_matrix, read_vector

pytestmark = pytest.mark.usefixtures("here")

PATHS = {
    "path-suffix": ["A.txt", "data.h5:g/B", "data.h5/g/B", "data.h5:/g/B"],
    "path-empty": [""],
    "url-format": ["s3://bucket/A.npy"],
    "path-zero": ["a::b/A\0.npy"],
    # Not UTF-8: known to be no name before a job has computed all.
    "path-member": [
        *("A.npy::B", "A.zarr::B\0C", "A.h5::", "A.h5::g/\udcff"),
        *("A.h5::B\0C", "s.zarr::../t.zarr"),
    ],
}


@pytest.mark.parametrize("code", PATHS)
def test_paths_that_name_no_matrix(code):
    for path in PATHS[code]:
        for find in (open_matrix, find_unfinished):
            with raises(StoreError, code):
                find(path)


def hold(path, values):
    """Store an array of any shape under a name."""
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


def replace_by_a_pipe(path, form=3):
    group = zarr.open_group("Z.zarr", mode="w", zarr_format=form)
    group.create_array("A", data=np.eye(3))
    group.create_group("g")
    Path(path).unlink(missing_ok=True)
    os.mkfifo(path)


def damage(path):
    Path(path).mkdir()
    Path(path, "zarr.json").write_text("{")


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
    (partial(replace_by_a_pipe, "Z.zarr/A/zarr.json"), "Z.zarr::A", "file-kind"),
    (partial(replace_by_a_pipe, "Z.zarr/g/zarr.json"), "Z.zarr", "file-kind"),
    (partial(replace_by_a_pipe, "Z.zarr/g/.zgroup", 2), "Z.zarr", "file-kind"),
    (partial(replace_by_a_pipe, "Z.zarr/.zattrs", 2), "Z.zarr::A", "file-kind"),
    (partial(replace_by_a_pipe, "Z.zarr/A/.zattrs", 2), "Z.zarr::A", "file-kind"),
    *(
        (partial(write_header, x), "A.npy", "matrix-shape")
        for x in ((-120, 80), (-120, -80), (120, -1))
    ),
    *(
        (partial(write_version, *x), "A.npy", "file-damaged")
        for x in ((9, 0), (1, 1), (0, 0))
    ),
    *(
        (partial(hold, x, np.zeros((1, 2, 3, 4))), x, "no-matrix")
        for x in ("t.zarr", "t.h5", "t.npz")
    ),
    *(
        (partial(save, "A.zarr", np.eye(3)), f"A.zarr::{x}", "no-such-member")
        for x in ("A", "g/A")
    ),
    *(
        (partial(save, x, np.zeros(y), "auto"), x, "matrix-shape")
        for x in ("C.npy", "C.zarr")
        for y in ((), (3,), (2, 2, 2))
    ),
    *(
        (partial(save, x, np.zeros(y), "auto"), x, "no-matrix")
        for x in ("C.npz", "C.h5", "C.hdf5")
        for y in ((), (3,), (2, 2, 2))
    ),
    # Each format has dtypes of its own.
    *(
        (partial(save, x, np.zeros((2, 3), y)), x, "matrix-dtype")
        for x in ("A.npy", "A.npz", "A.h5")
        for y in ("f2", "g", "G", "S3", "i4,f8")
    ),
    *(
        (partial(save, x, np.zeros((2, 3), y)), x, "matrix-dtype")
        for x, y in (("A.npy", "M8[s]"), ("A.npz", "M8[s]"), ("A.zarr", "f2"))
    ),
]


def test_what_is_no_matrix_is_refused(here):
    for number, (make, path, code) in enumerate(REFUSED):
        (here / str(number)).mkdir()
        os.chdir(here / str(number))
        make()
        with raises(StoreError, code):
            open_matrix(path)


def test_indices_are_two_slices_or_numbers():
    save("A.npy", make_matrix())
    for index in [0, slice(3), (0,), (0, 0, 0), ([1, 2], slice(3)), (None, 1)]:
        with raises(ArgumentError, "index"):
            open_matrix("A.npy")[index]
    with pytest.raises(IndexError):
        open_matrix("A.npy")[5, 0]


@pytest.mark.parametrize("kind", [os.mkfifo, os.mkdir, partial(os.symlink, "none")])
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"zarr_format": 2}, "1.2"),
        ({"zarr_format": 3}, "c/1/2"),
        ({"zarr_format": 3, "chunks": (1, 3), "shards": (2, 3)}, "c/1/2"),
    ],
)
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
        td.plan(td.update_files, td.herk, "A.zarr", n_workers=2)
    chunks = (2**40, 10**9 + 7)
    zarr.create_array("B.zarr", shape=(3000, 3000), chunks=chunks, dtype="f8")
    plan = td.plan(td.update_files, td.herk, "B.zarr", n_workers=2, num_moduli=8)
    assert max(plan.tile_shape) <= 3000


def test_links_to_groups_above_are_not_followed_for_ever():
    group = zarr.open_group("Z.zarr", mode="w")
    group.create_group("g").create_array("A", data=np.eye(3))
    for name in ("one", "two"):
        os.symlink("..", f"Z.zarr/g/{name}")
    assert open_matrix("Z.zarr").location.member == "g/A"


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
    for length in range(0, len(whole), 7):
        Path(name).write_bytes(whole[:length])
        with pytest.raises(StoreError) as caught:
            open_matrix(name)
        assert caught.value.code in ("file-truncated", "file-damaged")


def test_a_working_directory_that_has_gone_is_told(here):
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir(here / "gone")
    for path in ("A.npy", "../A.npy"):
        with raises(StoreError, "no-folder"):
            open_matrix(path)
    save(here / "A.npy", np.eye(2))
    assert_same_bits(everything(here / "A.npy"), np.eye(2))


def test_a_store_that_may_not_be_looked_into_is_not_taken_for_none(monkeypatch):
    save("A.zarr", np.eye(2))
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may do anything
    for find in (open_matrix, read_vector):
        with raises(StoreError, "no-permission"):
            find("A.zarr")
