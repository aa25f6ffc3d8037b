"""What is refused loses nothing: other jobs, other inputs, other files of a worker."""

import json
import os
import shutil
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.command import contents, read, save
from tests.support.expect import raises
from tests.support.jobs import TILES, finished, multiply, stop_after
from tests.support.stored import disguise
from twom_dist.errors import StoreError

CHANGES = [
    {"alpha": 2},
    {"op_a": "C", "a": "AH.npy"},
    {"num_moduli": 12},
    {"accuracy": 1e-6},
    {"method": "3m"},
    {"method": "blas"},
    {"beta": 1, "c": "C0.h5"},
    {"b": "B2.npy"},
]


def test_another_job_input_or_version_is_refused(files, monkeypatch):
    save("AH.npy", files[0].conj().T)
    save("B2.npy", files[1])
    stop_after(3, multiply)
    before = contents(Path())
    for changes in CHANGES:
        options = {"a": "A.zarr", "b": "B.npy", **changes}
        with raises(StoreError, "unfinished-differs"):
            td.multiply_files(output="C.zarr", **options)
    with monkeypatch.context() as patch:
        patch.setattr(td, "__version__", "9.9")
        with raises(StoreError, "unfinished-differs"):
            multiply()
    assert contents(Path()) == before
    (metadata,) = Path().glob(".C.zarr.unfinished/*/zarr.json")
    whole = json.loads(metadata.read_text())

    def ours(x):
        return x["attributes"]["twom_dist"]

    for change in (
        dict.clear,
        lambda x: x.update(attributes={}),
        lambda x: x.update(attributes={"twom_dist": []}),
        lambda x: ours(x).pop("id"),
        lambda x: ours(x).pop("made"),
        lambda x: ours(x).update(made=3),
        lambda x: ours(x).update(tile=["x", None]),
        lambda x: ours(x)["inputs"].update(A=None),
        lambda x: ours(x)["stamps"].pop("B"),
        lambda x: ours(x).update(overwrite=True),
        lambda x: x.update(shape=[3, 4]),
    ):
        change(damaged := deepcopy(whole))
        metadata.write_text(json.dumps(damaged))
        with raises(StoreError, "unfinished-damaged"):
            multiply()
    metadata.write_text(json.dumps(whole))
    assert multiply().resumed >= 3
    # The member of a zarr stays what it was.
    for begun, now in (("D.zarr", "D.zarr::C"), ("E.zarr::C", "E.zarr::D")):
        stop_after(3, partial(multiply, begun))
        with raises(StoreError, "unfinished-damaged"):
            multiply(now)
        assert multiply(begun).resumed >= 3


def test_inputs_that_may_be_others_are_refused(files):
    # Of a zarr one chunk: the metadata file stays as it is.
    for changed in ("B.npy", "A.zarr/c/0/0"):
        for change in (
            lambda path: path.write_bytes(path.read_bytes()),
            disguise,
            # Its content may have changed as well.
            lambda path: path.chmod(path.stat().st_mode ^ 0o40),
        ):
            stop_after(3, partial(multiply, overwrite=True))
            change(Path(changed))
            before = contents(Path())
            with raises(StoreError, "unfinished-input-changed") as caught:
                multiply()
            assert changed.partition("/")[0] in caught.value.problem
            assert contents(Path()) == before


def test_a_native_product_stays_with_its_engine_and_panels(files):
    run = partial(multiply, method="blas")
    stop_after(3, run)
    with raises(StoreError, "unfinished-differs"):
        run(engine="reference")
    panels = dask.config.set({"twom-dist.panel-bytes": 1})
    with panels, raises(StoreError, "unfinished-differs"):
        run()
    run()
    expected = td.gemm(*files[:2], method="blas")
    np.testing.assert_allclose(read("C.zarr"), expected, rtol=1e-13)


def test_what_cannot_be_done_discards_nothing(files, client, monkeypatch):
    """Also where the old tiles are no longer wanted."""
    # Each process finds the folder that it works in there.
    paths = ("/proc/self/cwd/A.zarr", "B.npy", "C.zarr")
    stop_after(4, partial(td.multiply_files, *paths, chunks=16))
    before, kept = contents(Path()), len(finished())
    free = SimpleNamespace(free=1000)
    for overwrite in (False, True):
        again = partial(td.multiply_files, *paths, overwrite=overwrite)
        with raises(StoreError, "file-not-on-worker"):
            again(client=client)
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda _: free)
            with raises(StoreError, "disk-full"):
                again()
        assert contents(Path()) == before
    # Room for the tiles that are missing is enough.
    free.free = (TILES - kept) * 16**2 * 16
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    assert td.multiply_files(*paths, chunks=16, overwrite=True).resumed == 0


# --- workers that see other files -----------------------------------------------------


@contextmanager
def elsewhere(client, folder):
    """Have one of the workers work in a folder of its own, and the others in this."""
    homes = client.run(os.getcwd)
    worker = min(homes)
    try:
        for address in homes:
            place = folder if address == worker else "."
            client.run(os.chdir, os.path.abspath(place), workers=[address])
        yield worker
    finally:
        for address, path in homes.items():
            client.run(os.chdir, path, workers=[address])


def test_a_worker_that_sees_another_file_is_refused(client, files):
    Path("other").mkdir()
    paths = (os.path.abspath("A.zarr"), "/proc/self/cwd/B.npy")
    job = partial(td.multiply_files, *paths, os.path.abspath("C.zarr"), client=client)
    status = Path("B.npy").stat()
    with elsewhere(client, "other") as worker:
        for kind in ("file-not-on-worker", "input-differs-on-worker", None):
            if kind != "file-not-on-worker":
                # Of the same shape: nothing else would tell them apart.
                np.save("other/B.npy", -files[1] if kind else files[1])
                times = (status.st_atime_ns, status.st_mtime_ns + bool(kind))
                os.utime("other/B.npy", ns=times)
            before = contents(Path())
            if kind is None:
                job(chunks=16)
                break
            with raises(StoreError, kind) as caught:
                job()
            assert worker in str(caught.value)
            assert contents(Path()) == before
    assert same_bits(read("C.zarr"), td.gemm(*files[:2]))
