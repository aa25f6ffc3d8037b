"""Containers in the place of an output: replaced where they hold nothing else."""

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.support.command import contents
from tests.support.expect import raises
from tests.support.stored import (
    assert_same_bits,
    begun,
    everything,
    left_behind,
    make_matrix,
    save,
    write_output,
)
from twom_dist.errors import StoreError
from twom_dist.store import find_unfinished

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize("held", [["A"], ["A", "B", "grp/A2"], ["v"], ["matrix", "A"]])
@pytest.mark.parametrize("name", ["C.h5", "C.npz"])
def test_a_container_of_other_arrays_is_not_overwritten(name, held):
    """Nor one of vectors alone; zarr stores are tested with files of any kind."""
    arrays = {x: np.zeros(3 if x == "v" else (2, 2)) for x in held}
    if name == "C.npz":
        np.savez(name, **arrays)
    else:
        with h5py.File(name, "w") as file:
            for array, values in arrays.items():
                file[array] = values
    before = contents(Path())
    with raises(StoreError, "output-holds-others"):
        find_unfinished(name).check(overwrite=True)
    assert contents(Path()) == before


def test_only_matrices_are_overwritten():
    for name in ("C.npy", "C.zarr"):
        Path(name).mkdir()
    Path("C.zarr/thesis.tex").touch()
    for name in ("D.npy", "D.h5"):
        os.mkfifo(name)
    for name in ("C.npy", "C.zarr", "D.npy", "D.h5"):
        with raises(StoreError, "output-holds-others"):
            find_unfinished(name).check(overwrite=True)
    Path("C.zarr/thesis.tex").unlink()
    write_output("C.zarr", make_matrix(), overwrite=True)
    assert_same_bits(everything("C.zarr"), make_matrix())


def test_what_comes_into_a_container_meanwhile_is_not_lost():
    save("C.h5", make_matrix())
    with begun("C.h5", np.eye(4), overwrite=True) as (place, output):
        with h5py.File("C.h5", "a") as file:
            file["alias"] = file["matrix"]
            file["beside"] = h5py.ExternalLink("none.h5", "A")
        with raises(StoreError, "output-holds-others"):
            place.finish(output, overwrite=True)
    assert_same_bits(everything("C.h5::matrix"), make_matrix())
    assert left_behind() == [".C.h5.unfinished"]
