"""A diagonal between matrices in files: a vector in a file, or in memory."""

import h5py
import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.command import make
from tests.support.expect import raises
from tests.support.stored import save
from twom_dist.cli import main
from twom_dist.errors import ArgumentError, PlanError, StoreError
from twom_dist.store import open_matrix, read_vector

# Not looked for, which takes longest.
GIVEN = {"num_moduli": 9, "chunks": 16, "overwrite": True}
K = 24


@pytest.fixture
def matrices(here):
    """Store A (40 x 24), B (24 x 31), and a vector in every format."""
    w = np.linspace(-3, 5, K)
    save("A.zarr", make(40, K, 1))
    save("B.npy", make(K, 31, 2))
    np.save("w.npy", w)
    np.save("row.npy", w[np.newaxis].astype(">f8"))
    np.savez("w.npz", w=w, other=w)
    with h5py.File("w.h5", "w") as file:
        file["grid/w"] = w
    zarr.save("w.zarr", w)
    return open_matrix("A.zarr")[:, :], open_matrix("B.npy")[:, :], w


FILES = ("w.npy", "row.npy", "w.npz::w", "w.h5::grid/w", "w.zarr")


@cases("path", FILES)
def test_vectors_of_every_format(matrices, path):
    assert same_bits(read_vector(path), matrices[2])


def test_bits_are_those_of_arrays_in_memory(matrices):
    a, b, w = matrices
    for options in (GIVEN, {"overwrite": True, "verify": True}):
        moduli = {x: y for x, y in options.items() if x == "num_moduli"}
        td.multiply_files("A.zarr", "B.npy", "C.npy", diag="w.h5::grid/w", **options)
        assert same_bits(np.load("C.npy"), td.gemm(a, b, diag=w, **moduli))
        td.multiply_files("A.zarr", "B.npy", "C.npy", diag=w * 1j, **options)
        assert same_bits(np.load("C.npy"), td.gemm(a, b, diag=w * 1j, **moduli))
        for uplo in ("full", "lower", "upper"):
            own = {**options, "uplo": uplo, "diag": "w.npy"}
            td.update_files(td.herk, "A.zarr", "C.npy", **own)
            expected = td.herk(a, uplo=uplo, diag=w, **moduli)
            assert same_bits(np.load("C.npy"), expected)


def test_tasks_that_read_their_tiles(matrices, streaming):
    a, b, w = matrices
    td.update_files(td.herk, "A.zarr", "C.npy", diag=w, chunks=8)
    assert same_bits(np.load("C.npy"), td.herk(a, diag=w))
    td.multiply_files("A.zarr", "B.npy", "D.npy", diag=w, chunks=8)
    assert same_bits(np.load("D.npy"), td.gemm(a, b, diag=w))


def test_another_diagonal_is_another_job(matrices, monkeypatch):
    def stop(progress):
        raise KeyboardInterrupt

    given = {"chunks": 16, "num_moduli": 9}
    with pytest.raises(KeyboardInterrupt):
        td.multiply_files(
            "A.zarr", "B.npy", "C.zarr", diag="w.npy", progress=stop, **given
        )
    with raises(StoreError, "unfinished-differs"):
        td.multiply_files("A.zarr", "B.npy", "C.zarr", diag=-matrices[2], **given)
    summary = td.multiply_files("A.zarr", "B.npy", "C.zarr", diag="row.npy", **given)
    assert summary.resumed > 0


def test_info_names_the_file_of_a_diagonal(matrices, here):
    for diag, told in (
        ("w.h5::grid/w", f"{here}/w.h5::grid/w"),
        (matrices[2], "in memory"),
    ):
        td.multiply_files("A.zarr", "B.npy", "C.zarr", diag=diag, **GIVEN)
        shown = CliRunner().invoke(main, ["info", "C.zarr"]).output
        assert f"B {here}/B.npy, diag {told}, " in shown


def test_plans_and_explanations(matrices):
    plan = td.plan(td.herk, "A.zarr", diag="w.npy")
    assert "|diag|" in str(plan)
    found = td.explain(td.gemm, "A.zarr", "B.npy", diag="w.npy")
    assert found.rho == td.explain(td.gemm, *matrices[:2], diag=matrices[2]).rho


def test_refusals(matrices):
    zarr.open_group("w.zarr", mode="w")["w"] = matrices[2]
    for path in ("w.npz", "w.h5", "w.zarr"):
        with raises(StoreError, "no-member") as unnamed:
            read_vector(path)
        assert "w'" in unnamed.value.problem.partition(" is meant: ")[2]
        with raises(StoreError, "no-such-member") as refused:
            read_vector(f"{path}::misspelt")
        assert "w'" in refused.value.problem.partition(" holds ")[2]
    with raises(StoreError, "vector-shape"):
        read_vector("B.npy")
    with raises(ArgumentError, "diag-complex"):
        td.update_files(td.herk, "A.zarr", "C.npy", diag=matrices[2] * 1j)
    for diag, output in (("w.npy", "w.npy"), ("w.h5::grid/w", "w.h5::C")):
        with raises(PlanError, "output-is-input"):
            td.multiply_files("A.zarr", "B.npy", output, diag=diag, overwrite=True)
