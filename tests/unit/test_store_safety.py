"""What is not ours is neither replaced, nor removed, nor believed."""

from pathlib import Path

import h5py
import pytest
import zarr

from tests.command import contents
from tests.expect import raises
from tests.stored import make_matrix, save
from twom_dist.errors import StoreError
from twom_dist.store import find_unfinished, open_matrix

pytestmark = pytest.mark.usefixtures("here")
FOLDER = Path(".C.npy.unfinished")


def add(path):
    """Make an empty file, and the folders above it."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).touch()


@pytest.mark.parametrize(
    "other", ["notes.txt", "c/notes.txt", "0/zarr.json", "sub/zarr.json", "B/.zarray"]
)
@pytest.mark.parametrize("group", [False, True])
def test_a_store_that_holds_others_is_not_replaced(here, group, other):
    zarr.open_group("C.zarr", mode="w") if group else save("C.zarr", make_matrix())
    find_unfinished("C.zarr").check(overwrite=True)
    add(f"C.zarr/{other}")
    before = contents(here)
    with raises(StoreError, "output-holds-others"):
        find_unfinished("C.zarr").check(overwrite=True)
    assert contents(here) == before


def test_attributes_of_others_are_no_provenance():
    for name in ("A.zarr", "A.h5"):
        save(name, make_matrix())
    zarr.open_array("A.zarr", mode="r+").attrs["twom_dist"] = {"x": 1}
    with h5py.File("A.h5", "r+") as file:
        file["matrix"].attrs["twom_dist"] = "not JSON"
    assert [open_matrix(x).provenance() for x in ("A.zarr", "A.h5")] == [{}, {}]
