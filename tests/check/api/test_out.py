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
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.strategies import ENGINE_NAMES, random_matrix
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


@cases("engine", ENGINE_NAMES)
@cases("layout", ["C", "F", "strided"])
@cases("tile", [64, 10])
@cases(("name", "count", "options"), CALLS)
def test_a_result_is_written_where_it_is_wanted(
    name, count, options, tile, layout, engine
):
    call, given = getattr(td, name), matrices()[:count]
    C = random_matrix(23, 23, seed=3)
    C += C.conj().T
    given[0][2, 3], given[-1][5, 1] = np.nan, np.inf
    options = options | {"engine": engine, "beta": 2.0, "C": C}
    if options.get("method") != "blas":
        options["num_moduli"] = 4
    with dask.config.set({"twom-dist.largest-tile": tile}):
        expected = call(*given, **options)
        whole = np.full((23, 50), 77 + 1j)
        out = (
            whole[:, ::2][:, :23] if layout == "strided" else whole[:, :23].copy(layout)
        )
        assert call(*given, out=out, **options) is out
    assert out.tobytes() == expected.tobytes()
    if layout == "strided":
        assert (whole[:, 1::2] == 77 + 1j).all()


@pytest.mark.parametrize("options", [{}, {"alpha": 0}, {"accuracy": "componentwise"}])
def test_what_is_not_multiplied_is_written_as_well(options):
    A, B = matrices()
    out = np.full((23, 23), np.nan, complex)
    assert td.zgemm(A, B, op_b="T", out=out, **options) is out
    assert out.tobytes() == td.zgemm(A, B, op_b="T", **options).tobytes()
    empty = np.full((23, 23), np.nan, complex)
    td.gemm(A[:, :0], B[:, :0], op_b="T", out=empty, **options)
    assert not empty.any()


class Subclass(np.ndarray):
    """An array that may mean something else by what is written to it."""


def read_only() -> np.ndarray:
    out = np.empty((23, 23), complex)
    out.flags.writeable = False
    return out


@cases(
    ("out", "kind"),
    [
        (np.empty((23, 22), complex), PlanError),
        (np.empty((23, 23), "complex64"), PlanError),
        (np.empty((23, 23)), PlanError),
        (np.empty(23 * 23, complex), PlanError),
        (read_only(), PlanError),
        (
            np.lib.stride_tricks.as_strided(np.empty(23, complex), (23, 23), (0, 16)),
            PlanError,
        ),
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
    whole = random_matrix(40, 40, seed=1)
    A, C = whole[:23, :17], random_matrix(23, 23, seed=2)
    wide = random_matrix(23, 24, seed=2)
    shifted = wide[:, 1:], {"beta": 1, "C": wide[:, :-1]}
    turned = C, {"beta": 1, "C": C.T}
    for out, given in ((whole[:23, 3:26], {}), shifted, turned):
        before = out.tobytes()
        with raises(PlanError, "out"):
            td.gemm(A, A, op_b="T", out=out, **given)
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


def test_blocks_that_share_an_entry_are_refused():
    whole = random_matrix(60, 60)
    for x in (whole[:21, :21], whole.T[:21, 20:41], whole[40:19:-1, 20::-1]):
        for out in (whole[20:41, 20:41], whole.T[20:41, 20:41][::-1]):
            with raises(PlanError, "out"):
                td.gemm(x, x.T, out=out)


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


@pytest.mark.parametrize(("name", "count", "options"), CALLS)
def test_a_product_is_the_routine(name, count, options):
    product = (
        td.Product(
            *[(23, 17)] * count, "complex128", routine=getattr(td, name), **options
        )
        if (count == 2)
        else td.Product(
            (23, 17), dtype="complex128", routine=getattr(td, name), **options
        )
    )
    for seed in (1, 5):
        given = [random_matrix(23, 17, seed=seed + i) for i in range(count)]
        expected = getattr(td, name)(*given, **options)
        out = np.empty((23, 23), complex)
        assert product(*given, out=out) is out
        assert out.tobytes() == product(*given).tobytes() == expected.tobytes()


def test_a_product_adds_to_another_matrix():
    A, B = matrices()
    C = random_matrix(23, 23, seed=9)
    product = td.Product(A.shape, B.shape, op_b="C", alpha=2, beta=0.5)
    expected = td.gemm(A, B, C, op_b="C", alpha=2, beta=0.5)
    assert product(A, B, C).tobytes() == expected.tobytes()


def test_other_matrices_and_options_are_refused():
    A, B = matrices()
    product = td.Product(A.shape, B.shape, op_b="T", num_moduli=8)
    for left, right in ((A[:-1], B), (A, B[:, :-1]), (A.astype("complex64"), B)):
        with raises(PlanError, "other-matrix"):
            product(left, right)
    with raises(ArgumentError, "no-b"):
        product(A)
    with raises(ArgumentError, "dask"):
        product(da.from_array(A), B)
    with raises(ArgumentError, "out"):
        td.Product(A.shape, B.shape, op_b="T", out="dd")
    alpha = np.array(2.0)
    product = td.Product(A.shape, B.shape, op_b="T", alpha=alpha)
    expected = product(A, B)
    alpha[...] = 3
    assert product(A, B).tobytes() == expected.tobytes()
    with raises(PlanError, "num-moduli"):
        td.Product(A.shape, B.shape, op_b="T", num_moduli=99)
    with raises(ArgumentError, "unknown-option"):
        td.Product(A.shape, routine=td.herk, op_a="T")


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


def test_an_array_without_axes_is_returned_as_it_is():
    x, out = np.ones(3), np.zeros(())
    assert td.einsum("i,i->", x, x, out=out) is out
    assert td.matmul(x, 2 * x, out=out) is out
    assert out == 6


def test_an_array_whose_entries_share_memory_is_refused():
    a, b = np.ones((4, 5)), np.ones((5, 6))
    for step in (8, 40):
        steps = np.lib.stride_tricks.as_strided(np.zeros(30), (4, 6), (step, 8))
        with raises(PlanError, "out"):
            td.gemm(a, b, out=steps)
    whole = np.zeros((8, 12))
    for out in (whole[::-2, ::2], whole.T[:6, :4].T, whole.reshape(4, 2, 12)[:, 1, :6]):
        assert (td.gemm(a, b, out=out) == 5).all()
