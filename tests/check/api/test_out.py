"""Results in arrays of the caller, and products that are computed again and again."""

import os
import sys
from functools import partial
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.errors import ArgumentError, PlanError
from twom_dist.problem.matrices import check_place, set_apart


def matrices(dtype="complex128", k=17):
    return [random_matrix(23, k, dtype, 1.0, seed) for seed in (1, 2)]


CALLS = [
    ("gemm", 2, {"op_b": "C"}),
    *(("herk", 1, {"uplo": uplo}) for uplo in ("full", "lower", "upper")),
    *((name, 2, {"uplo": "lower"}) for name in ("her2k", "syr2k")),
    ("syrk", 1, {}),
    ("gemm", 2, {"op_b": "C", "method": "blas"}),
]
# Parts of an array of 23 x 50 that are written to.
PLACES = [np.s_[:, :23], np.s_[:, 2:48:2], np.s_[::-1, 22::-1]]


@cases("where", PLACES)
@cases("order", "CF")
@cases("tile", [64, 10])
@cases(("name", "count", "options"), CALLS)
def test_a_result_is_written_where_it_is_wanted(
    name, count, options, tile, order, where
):
    """Over C as well, and nowhere else; by a Product as by the routine."""
    given = matrices()[:count]
    given[0][2, 3], given[-1][5, 1] = np.nan, np.inf
    whole = np.repeat(random_matrix(23, 25, seed=3), 2, axis=1).copy(order)
    C, kept = whole[where], whole.copy()
    options = options | {"alpha": -1, "beta": 2.0}
    routine, shapes = getattr(td, name), [x.shape for x in given]
    product = td.Product(*shapes, dtype="complex128", routine=routine, **options)
    with dask.config.set({"twom-dist.largest-tile": tile}):
        expected = routine(*given, C=C.copy(), **options)
        for call in (partial(routine, **options), product):
            for c in (C.copy(), whole[where]):
                assert call(*given, C=c, out=C) is C
                assert same_bits(C, expected)
                C[...] = kept[where]
        assert same_bits(product(*given, C=C), expected)
    assert same_bits(whole, kept)


@pytest.mark.parametrize("num_moduli", [None, 9])
def test_matrices_of_a_stack_are_updated_where_they_lie(num_moduli):
    A, C = random_matrix(69, 17, "complex64").reshape(3, 23, 17), np.ones((3, 23, 23))
    C = C.astype("complex64")
    call = partial(td.herk, A, beta=0.5, num_moduli=num_moduli)
    expected = call(C=C.copy())
    assert call(C=C, out=C) is C
    assert same_bits(C, expected)


@cases("options", [{}, {"alpha": 0}, {"accuracy": "componentwise"}])
def test_what_is_not_multiplied_is_written_as_well(options):
    A, B = matrices()
    out = np.full((23, 23), np.nan, complex)
    assert td.zgemm(A, B, op_b="T", out=out, **options) is out
    assert same_bits(out, td.zgemm(A, B, op_b="T", **options))
    td.gemm(A[:, :0], B[:, :0], op_b="T", out=out, **options)
    assert not out.any()
    empty = np.zeros((3, 0, 5))
    assert td.gemm(np.ones((3, 0, 2)), np.ones((3, 2, 5)), out=empty) is empty


class Subclass(np.ndarray):
    """An array that may mean something else by what is written to it."""


def read_only() -> np.ndarray:
    out = np.empty((23, 23), complex)
    out.flags.writeable = False
    return out


def strided(*steps, shape=(23, 23)):
    return np.lib.stride_tricks.as_strided(np.empty(600, complex), shape, steps)


@cases(
    ("out", "kind"),
    [
        (np.empty((23, 22), complex), PlanError),
        (np.empty((23, 23), "complex64"), PlanError),
        (np.empty((23, 23)), PlanError),
        (np.empty(23 * 23, complex), PlanError),
        (read_only(), PlanError),
        (strided(0, 16), PlanError),
        (strided(16, 16), PlanError),
        (strided(22 * 16, 16), PlanError),
        (np.ma.masked_all((23, 23), complex), ArgumentError),
        (np.empty((23, 23), complex).view(Subclass), ArgumentError),
        (da.zeros((23, 23), dtype=complex), ArgumentError),
        ([[0j] * 23] * 23, ArgumentError),
        (7, ArgumentError),
        ("C", PlanError),
    ],
)
def test_what_cannot_be_written_to_is_refused(out, kind):
    A, B = matrices()
    with raises(kind, "out"):
        td.gemm(A, B, op_b="T", out=out)


def test_a_matrix_that_is_read_is_not_written_to():
    whole = random_matrix(60, 60, seed=1)
    A, C = whole[:23, :17], random_matrix(23, 23, seed=2)
    wide = random_matrix(23, 24, seed=2)
    shifted = A, wide[:, 1:], {"beta": 1, "C": wide[:, :-1]}
    turned = A, C, {"beta": 1, "C": C.T}
    overlaps = [(A, whole[:23, 3:26], {}), shifted, turned]
    for x in (whole[:21, :21], whole.T[:21, 20:41], whole[40:19:-1, 20::-1]):
        for out in (whole[20:41, 20:41], whole.T[20:41, 20:41][::-1]):
            overlaps.append((x, out, {}))
    for x, out, given in overlaps:
        before = out.tobytes()
        with raises(PlanError, "out"):
            td.gemm(x, x, op_b="T", out=out, **given)
        assert out.tobytes() == before


# Blocks of a 60 x 60 matrix that share no entry: A, B and out.
BLOCKS = {
    "columns": (np.s_[:20, :20], np.s_[:20, 20:40], np.s_[:20, 40:]),
    "corners": (np.s_[:20, 20:40], np.s_[20:40, :20], np.s_[20:40, 20:40]),
    "every third column": (np.s_[:20, ::3], np.s_[:20, 1::3], np.s_[:20, 2::3]),
    "every third row": (np.s_[::3, :20], np.s_[1::3, :20], np.s_[2::3, :20]),
    "reversed": (np.s_[19::-1, 19::-1], np.s_[:20, 39:19:-1], np.s_[:20, 40:]),
}


@cases("blocks", list(BLOCKS.values()))
def test_blocks_of_one_matrix_are_read_and_written(blocks):
    calls = {
        "gemm": lambda a, b, out: td.gemm(a, b, op_b="C", out=out),
        "moduli": lambda a, b, out: td.gemm(a, b, num_moduli=9, out=out),
        "beta": lambda a, b, out: td.gemm(a, a, b, beta=2j, out=out),
        "diag": lambda a, b, out: td.gemm(a, b, diag=b[:, 3], out=out),
        "native": lambda a, b, out: td.gemm(a, b, method="blas", out=out),
        "herk": lambda a, b, out: td.herk(a, b, beta=0.5, out=out),
        "her2k": lambda a, b, out: td.her2k(a, b, out=out),
        "matmul": lambda a, b, out: td.matmul(a, b, out=out),
        "einsum": lambda a, b, out: td.einsum("ij,kj->ik", a, b, out=out),
    }
    for turn in (False, True):
        for name, call in calls.items():
            whole = random_matrix(60, 60, seed=3)
            kept = whole.copy()
            a, b, out = ((whole.T if turn else whole)[x] for x in blocks)
            # NumPy's bits may be others for copies, which its BLAS takes.
            expected = call(a, b, None)
            assert call(a, b, out) is out, name
            assert out.tobytes() == expected.tobytes(), name
            (kept.T if turn else kept)[blocks[2]] = expected
            assert whole.tobytes() == kept.tobytes(), name


def test_blocks_on_a_device_are_told_apart_on_the_host(monkeypatch):
    # CuPy compares whole spans; its exact test is a kernel, for which the host waits.
    class OnDevice:
        def __init__(self, x):
            self.shape, self.strides, self.dtype = x.shape, x.strides, x.dtype
            self.device = SimpleNamespace(id=0)
            self.__cuda_array_interface__ = x.__array_interface__

    OnDevice.__module__ = "cupy"
    cupy = SimpleNamespace(
        may_share_memory=lambda x, y: True,
        copy=lambda x: "a copy",
        cuda=SimpleNamespace(Device=lambda: SimpleNamespace(id=0)),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    whole = random_matrix(60, 60)
    for blocks in BLOCKS.values():
        a, b, out = (OnDevice(whole[x]) for x in blocks)
        check_place(out, (a, b))
        with raises(PlanError, "out"):
            check_place(out, (a, OnDevice(whole[blocks[2]].T[1:, 1:])))
        assert set_apart(OnDevice(whole[blocks[2]]), out) == "a copy"
        assert set_apart(a, out) is a


def halves(path, mode="r+"):
    """View the halves of a file of 46 x 23, by a memory map of its own."""
    whole = np.memmap(path, complex, mode, shape=(46, 23))
    return whole[:23], np.asarray(whole)[23:]


def second_half(path, mode="r+"):
    """Map the second half alone."""
    return np.memmap(path, complex, mode, 23 * 23 * 16, (23, 23))


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_another_map_of_the_file_that_is_written_to_is_not_read(here, mode):
    np.tile(random_matrix(23, 23), (2, 1)).tofile("file")
    os.link("file", "hard")
    os.symlink("file", "soft")
    before = np.fromfile("file", complex)
    for name in ("file", here / "file", "hard", "soft"):
        first, second = halves(name, mode)
        part = second_half(name, mode)
        for x, y in ((first, 0), (second, 1), (part, 1), (second.T, 1), (part[3:], 1)):
            out = (halves("file")[0], second_half("file"))[y]
            for call in (
                partial(td.gemm, np.ones((23, len(x))), x),
                partial(td.matmul, np.ones((23, len(x))), x),
                partial(td.einsum, "ij,jk->ik", np.ones((23, len(x))), x),
            ):
                with raises(PlanError, "out"):
                    call(out=out)
    assert np.fromfile("file", complex).tobytes() == before.tobytes()


def test_other_parts_of_a_file_and_other_files_may_be_written_to(here):
    values = random_matrix(46, 23)
    for name in ("file", "other"):
        values.tofile(name)
    first, second = halves("file", "r")
    expected = td.gemm(first, first)
    for out in (second_half("file"), halves("other")[0], halves("file", "c")[0]):
        assert td.gemm(first, first, out=out) is out
        assert (out == expected).all()
    assert (first == values[:23]).all()  # what is written to "c" stays in memory
    assert (second == expected).all()


def test_a_file_that_was_removed_is_still_one(here):
    random_matrix(46, 23).tofile("file")
    (x, _), (out, _) = halves("file"), halves("file")
    os.remove("file")
    with raises(PlanError, "out"):
        td.gemm(x, x, out=out)


def test_results_of_dask_arrays_are_lazy():
    A, B = matrices()
    with raises(PlanError, "out"):
        td.gemm(da.from_array(A), B, op_b="T", out=np.empty((23, 23), complex))


def test_other_matrices_and_options_are_refused():
    A, B = matrices()
    make = partial(td.Product, A.shape, B.shape, op_b="T")
    product = make(num_moduli=8)
    for kind, code, call in (
        (PlanError, "other-matrix", lambda: product(A[:-1], B)),
        (PlanError, "other-matrix", lambda: product(A, B[:, :-1])),
        (PlanError, "other-matrix", lambda: product(A.astype("complex64"), B)),
        (ArgumentError, "no-b", lambda: product(A)),
        (ArgumentError, "dask", lambda: product(da.from_array(A), B)),
        (ArgumentError, "out", lambda: make(out="dd")),
        (PlanError, "num-moduli", lambda: make(num_moduli=99)),
        (
            ArgumentError,
            "unknown-option",
            lambda: td.Product(A.shape, routine=td.herk, op_a="T"),
        ),
    ):
        with raises(kind, code):
            call()
    alpha = np.array(2.0)
    product = make(alpha=alpha)
    expected = product(A, B)
    alpha[...] = 3
    assert same_bits(product(A, B), expected)


@pytest.mark.parametrize("subscripts", ["ij->ji", "ij,jk->ki", "ij,jk,kl->l"])
@pytest.mark.parametrize("dtype", ["complex128", "int64"])
def test_einsum_writes_to_out(subscripts, dtype):
    shapes = [(2, 3), (3, 4), (4, 5)][: subscripts.count(",") + 1]
    operands = [random_matrix(*shape, "complex128") * 9 for shape in shapes]
    operands = [np.rint(x.real).astype(dtype) for x in operands]
    expected = np.einsum(subscripts, *operands)
    whole = np.empty((2, *expected.shape), dtype)
    out = whole[1]
    assert td.einsum(subscripts, *operands, out=out) is out
    assert (whole[1] == expected).all()
    wrong = np.empty((*expected.shape, 1), dtype)
    for out in (wrong, whole[1].astype("complex64"), operands[0]):
        with raises(PlanError, "out"):
            td.einsum(subscripts, *operands, out=out)

    x, out = np.ones(3), np.zeros(())
    assert td.einsum("i,i->", x, x, out=out) is out
    assert td.matmul(x, 2 * x, out=out) is out
    assert out == 6
