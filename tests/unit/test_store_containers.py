"""Containers in the place of an output: replaced where they hold nothing else."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from tests.command import contents
from tests.expect import raises
from tests.stored import (
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


def fill_container(path: Path, names: list[str]) -> None:
    """Store a small array under each name, and no matrix but a vector under "v"."""
    arrays = {name: np.zeros(3 if name == "v" else (2, 2)) for name in names}
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".zarr":
        for name, values in arrays.items():
            zarr.create_array(path, name=name, data=values)
    else:
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name] = values


@pytest.mark.parametrize("held", [["A"], ["A", "B", "grp/A2"], ["v"], ["matrix", "A"]])
@pytest.mark.parametrize("name", ["C.h5", "C.npz", "C.zarr"])
def test_a_container_of_other_arrays_is_not_overwritten(
    tmp_path: Path, name: str, held: list[str]
) -> None:
    fill_container(tmp_path / name, held)
    before = contents(tmp_path)
    others = [x for x in held if x != "matrix" or name == "C.zarr"]
    with raises(StoreError, "output-holds-others") as caught:
        find_unfinished(tmp_path / name).check(overwrite=True)
    # Of a zarr group the whole group is named.
    first = {x.split("/")[0] if name == "C.zarr" else x for x in others}
    assert ", ".join(map(repr, sorted(first))) in caught.value.problem
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["C.h5", "C.npz", "C.zarr"])
def test_a_container_of_nothing_but_an_output_is_overwritten(
    tmp_path: Path, name: str
) -> None:
    fill_container(tmp_path / name, ["" if name == "C.zarr" else "matrix"])
    write_output(tmp_path / name, make_matrix(), overwrite=True)
    assert_same_bits(everything(tmp_path / name), make_matrix())


def test_what_comes_into_a_container_meanwhile_is_not_lost(tmp_path: Path) -> None:
    save(tmp_path / "C.h5", make_matrix())
    with begun(tmp_path / "C.h5", np.eye(4), overwrite=True) as (place, output):
        with h5py.File(tmp_path / "C.h5", "a") as file:
            file["notes"] = np.ones(3)
        with raises(StoreError, "output-holds-others"):
            place.finish(output, overwrite=True)
    assert_same_bits(everything(f"{tmp_path}/C.h5::matrix"), make_matrix())
    assert left_behind(tmp_path) == [".C.h5.unfinished"]


def test_a_link_of_an_hdf5_file_is_not_lost(tmp_path: Path) -> None:
    save(tmp_path / "C.h5", make_matrix())
    with h5py.File(tmp_path / "C.h5", "a") as file:
        file["alias"] = file["matrix"]
        file["beside"] = h5py.ExternalLink("none.h5", "A")
    with raises(StoreError, "output-holds-others") as caught:
        find_unfinished(tmp_path / "C.h5").check(overwrite=True)
    assert "'alias', 'beside'" in caught.value.problem
