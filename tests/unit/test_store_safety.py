"""What is not ours is neither replaced, nor removed, nor believed."""

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

import twom_dist as td
from tests.expect import raises
from tests.jobs import stop_after
from tests.stored import begun, make_matrix, save
from twom_dist.errors import StoreError
from twom_dist.jobs import run
from twom_dist.jobs.inputs import InputGuard
from twom_dist.store import find_unfinished, open_matrix
from twom_dist.store.leftovers import list_leftovers, remove_leftover


def add(path: Path) -> None:
    """Make an empty file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


@pytest.mark.parametrize(
    "other", ["notes.txt", "c/notes.txt", "0/zarr.json", "sub/zarr.json", "B/.zarray"]
)
@pytest.mark.parametrize("group", [False, True])
def test_a_store_that_holds_others_is_not_replaced(
    tmp_path: Path, group: bool, other: str
) -> None:
    path = tmp_path / "C.zarr"
    zarr.open_group(path, mode="w") if group else save(path, make_matrix())
    find_unfinished(path).check(overwrite=True)
    add(path / other)
    with raises(StoreError, "output-holds-others"):
        find_unfinished(path).check(overwrite=True)


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    for name in ("C.npy", "C.h5"):
        os.mkfifo(tmp_path / name)
        with raises(StoreError, "output-no-matrix"):
            find_unfinished(tmp_path / name).check(overwrite=True)


def test_a_folder_with_other_files_is_neither_used_nor_removed(tmp_path: Path) -> None:
    save(tmp_path / "A.npy", make_matrix((4, 4)))
    add(tmp_path / ".C.npy.unfinished" / "thesis.tex")
    with pytest.raises(StoreError):
        td.update_files("herk", tmp_path / "A.npy", tmp_path / "C.npy")
    (place,) = list_leftovers(str(tmp_path))
    for _ in range(2):
        with raises(StoreError, "not-removed"):
            remove_leftover(place)
        (tmp_path / ".C.npy.unfinished" / "lock").unlink(missing_ok=True)
    assert (tmp_path / ".C.npy.unfinished" / "thesis.tex").exists()


def test_a_linked_folder_is_not_used(tmp_path: Path) -> None:
    save(tmp_path / "A.npy", make_matrix((4, 4)))
    add(tmp_path / "fast" / "lock")
    (tmp_path / ".C.npy.unfinished").symlink_to(tmp_path / "fast")
    with raises(StoreError, "file-damaged"):
        td.update_files("herk", tmp_path / "A.npy", tmp_path / "C.npy")
    assert (tmp_path / "fast" / "lock").exists()


def test_tiles_of_nobody_knows_what_are_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a job is killed before all chunks of its inputs were looked at."""
    paths = (tmp_path / "A.zarr", tmp_path / "A.zarr", tmp_path / "C.zarr")
    values = make_matrix((6, 6), "f8")
    values[:] = 1
    save(paths[0], values)
    monkeypatch.setattr(run, "MANY_CHUNKS", 0)
    with monkeypatch.context() as patch:
        patch.setattr(InputGuard, "note", lambda _: None)
        stop_after(3, lambda **k: td.multiply_files(*paths, tile=2, **k))
    array = zarr.open_array(paths[0], mode="r+")
    array[:] = 2 * values
    assert td.multiply_files(*paths, tile=2).resumed == 0
    assert np.array_equal(open_matrix(paths[2])[:, :], np.full((6, 6), 24.0))


def test_a_chunk_of_the_same_size_and_an_older_time_is_noticed(tmp_path: Path) -> None:
    save(tmp_path / "A.zarr", make_matrix())
    before = open_matrix(tmp_path / "A.zarr").stamp()
    add(tmp_path / "A.zarr" / ".#zarr.json")
    assert open_matrix(tmp_path / "A.zarr").stamp() == before
    os.utime(tmp_path / "A.zarr" / "c" / "0" / "0", ns=(1, 1))
    assert open_matrix(tmp_path / "A.zarr").stamp() != before


def test_chunks_are_counted_by_their_indices(tmp_path: Path) -> None:
    keys = {"name": "default", "separator": "."}
    zarr.create_array(
        tmp_path / "A.zarr",
        data=np.ones((5, 7)),
        chunks=(2, 3),
        chunk_key_encoding=keys,
    )
    assert open_matrix(tmp_path / "A.zarr").count_chunks() == (9, 9)
    add(tmp_path / "A.zarr" / "c.9.0")
    assert open_matrix(tmp_path / "A.zarr").count_chunks() == (9, 9)


def test_a_virtual_source_of_a_virtual_source_must_be_there(tmp_path: Path) -> None:
    save(tmp_path / "source.h5", make_matrix((2, 3), "f8"))
    first, second = (h5py.VirtualLayout((2, 3), "f8") for _ in "12")
    first[:] = h5py.VirtualSource("source.h5", "matrix", (2, 3))
    second[:] = h5py.VirtualSource(".", "W", (2, 3))
    with h5py.File(tmp_path / "V.h5", "w") as file:
        file.create_virtual_dataset("W", first)
        file.create_virtual_dataset("V", second)
    open_matrix(tmp_path / "V.h5::V")
    (tmp_path / "source.h5").unlink()
    with raises(StoreError, "source-missing"):
        open_matrix(tmp_path / "V.h5::V")


def test_attributes_of_others_are_no_provenance(tmp_path: Path) -> None:
    save(tmp_path / "A.zarr", make_matrix())
    zarr.open_array(tmp_path / "A.zarr", mode="r+").attrs["twom_dist"] = {"x": 1}
    save(tmp_path / "A.h5", make_matrix())
    with h5py.File(tmp_path / "A.h5", "r+") as file:
        file["matrix"].attrs["twom_dist"] = "not JSON"
    for name in ("A.zarr", "A.h5"):
        assert open_matrix(tmp_path / name).provenance() == {}


def test_a_lock_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    with begun(tmp_path / "C.npy", np.eye(4)):
        pass
    (tmp_path / ".C.npy.unfinished" / "lock").unlink()
    os.mkfifo(tmp_path / ".C.npy.unfinished" / "lock")
    (place,) = list_leftovers(str(tmp_path))
    with raises(StoreError, "not-removed"):
        remove_leftover(place)
