"""Outputs: the place is checked first, and the old stays until the new is whole."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.expect import raises
from tests.stored import (
    NAMES,
    assert_same_bits,
    everything,
    left_behind,
    make_matrix,
    save,
    write_tiles,
)
from twom_dist.errors import ArgumentError, StoreError
from twom_dist.store import create_matrix

ROOT = Path(__file__).resolve().parents[2]
MEMBER_NAMES = ["C.zarr::g/C", "C.npz::C", "C.h5::g/C"]
DTYPES = ["?", "i1", "u2", "i4", "u8", "f4", "f8", "c8", "c16"]
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (5, 7), (6, 4)]


@pytest.mark.parametrize("name", NAMES)
def test_the_place_is_checked_first(
    tmp_path: Path, monkeypatch: Any, name: str
) -> None:
    with raises(StoreError, "no-folder"):
        create_matrix(tmp_path / "none" / name, (1, 1), "f8", (1, 1))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=127))
    with raises(StoreError, "disk-full"):
        create_matrix(tmp_path / name, (2, 4), "c16", (2, 4))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES + MEMBER_NAMES)
def test_what_exists_is_not_overwritten_by_chance(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{name}"
    save(path, make_matrix())
    member = "::" in name
    code = "container-exists" if member else "output-exists"
    with raises(StoreError, code):
        create_matrix(path, (1, 1), "f8", (1, 1))
    if member:
        with raises(StoreError, code):
            create_matrix(path, (1, 1), "f8", (1, 1), overwrite=True)
    assert_same_bits(everything(path), make_matrix())


def test_tiles_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    writer = create_matrix(tmp_path / "C.npy", (4, 4), "f8", (2, 2))
    with raises(StoreError, "tile-misfit"):
        writer[0:2, 0:2] = np.zeros((2, 3))
    with raises(StoreError, "tile-misfit"):
        writer[3:5, 0:2] = np.zeros((2, 2))
    with raises(StoreError, "tile-misfit"):
        writer[0:2, 0:2] = np.zeros((2, 2), "c16")
    for index in [0, (0, slice(2)), (slice(0, 4, 2), slice(2))]:
        with raises(ArgumentError, "index"):
            writer[index] = np.zeros((2, 2))


@pytest.mark.parametrize("name", NAMES + MEMBER_NAMES)
@pytest.mark.parametrize("old", [False, True])
def test_only_commit_touches_the_target(tmp_path: Path, name: str, old: bool) -> None:
    path, first, second = tmp_path / name.partition("::")[0], make_matrix(), np.eye(4)
    if old:
        save(path, first)
    target = path if old else f"{tmp_path}/{name}"
    writer = create_matrix(target, (4, 4), "f8", (2, 2), overwrite=old)
    write_tiles(writer, second)
    assert path.exists() == old
    if old:
        assert_same_bits(everything(path), first)
    (hidden,) = left_behind(tmp_path)
    assert hidden.startswith(f".{path.name}.")
    assert hidden.endswith(".partial")
    assert list(tmp_path.glob(f"*{path.suffix}")) == ([path] if old else [])
    writer.commit()
    assert_same_bits(everything(path), second)
    assert left_behind(tmp_path) == []
    writer.discard()
    assert_same_bits(everything(path), second)
    with raises(StoreError, "writer-ended"):
        writer.commit()
    with raises(StoreError, "file-missing"):
        writer[0:2, 0:2] = np.zeros((2, 2))
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_exception_discards(tmp_path: Path, name: str) -> None:
    save(tmp_path / name, make_matrix())
    writer = create_matrix(tmp_path / name, (4, 4), "f8", (2, 2), overwrite=True)
    writer[0:2, 0:2] = np.ones((2, 2))
    with pytest.raises(KeyboardInterrupt), writer:
        raise KeyboardInterrupt
    assert_same_bits(everything(tmp_path / name), make_matrix())
    assert left_behind(tmp_path) == []
    writer.discard()


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_run_leaves_the_old_matrix(tmp_path: Path, name: str) -> None:
    save(tmp_path / name, make_matrix())
    script = """if True:
        import os, signal, sys
        from twom_dist.store import create_matrix
        with create_matrix(sys.argv[1], (4, 4), "f8", (2, 2), overwrite=True) as C:
            C[0:2, 0:2] = [[1, 2], [3, 4]]
            os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", script, str(tmp_path / name)]
    assert subprocess.run(command, cwd=ROOT).returncode == -signal.SIGKILL
    assert_same_bits(everything(tmp_path / name), make_matrix())
    assert len(left_behind(tmp_path)) == 1
