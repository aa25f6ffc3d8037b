"""Results in arrays of the caller."""

import os
from functools import partial

import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.strategies import random_matrix
from twom_dist.errors import ArgumentError, PlanError

N = 23


A, B = (random_matrix(N, 17, seed=seed) for seed in (1, 2))


def test_what_is_not_multiplied_is_written_as_well():
    out = np.full((N, N), np.nan, complex)
    assert td.zgemm(A, B, op_b="T", alpha=0, out=out) is out
    assert not out.any()
    out[...] = np.nan
    td.gemm(A[:, :0], B[:, :0], op_b="T", out=out)
    assert not out.any()
    empty = np.zeros((3, 0, 5))
    assert td.gemm(np.ones((3, 0, 2)), np.ones((3, 2, 5)), out=empty) is empty
    # A stack, over C.
    x, C = random_matrix(3 * N, 17, "c8").reshape(3, N, 17), np.ones((3, N, N), "c8")
    for options in ({"beta": 0.5}, {"beta": 0.5, "num_moduli": 9}):
        expected = td.herk(x, C=C.copy(), **options)
        assert td.herk(x, C=C, out=C, **options) is C
        assert same_bits(C, expected)


class Subclass(np.ndarray):
    pass


def strided(*steps):
    return np.lib.stride_tricks.as_strided(np.empty(600, complex), (N, N), steps)


@cases(
    ("out", "kind"),
    [
        (np.empty((N, 22), complex), PlanError),
        (np.empty((N, N), "complex64"), PlanError),
        (np.empty(N * N, complex), PlanError),
        (np.frombuffer(bytes(16 * N * N), complex).reshape(N, N), PlanError),
        # Entries that share memory.
        *((strided(*x), PlanError) for x in ((0, 16), (16, 16), (22 * 16, 16))),
        (np.ma.masked_all((N, N), complex), ArgumentError),
        (np.empty((N, N), complex).view(Subclass), ArgumentError),
        ([[0j] * N] * N, ArgumentError),
    ],
)
def test_what_cannot_be_written_to_is_refused(out, kind):
    with raises(kind, "out"):
        td.gemm(A, B, op_b="T", out=out)


def test_a_matrix_that_is_read_is_not_written_to():
    whole = random_matrix(60, 60, seed=1)
    x, C, wide = whole[:N, :17], random_matrix(N, N), random_matrix(N, 24, seed=2)
    overlaps = [
        (x, whole[:N, 3:26], {}),
        (x, wide[:, 1:], {"beta": 1, "C": wide[:, :-1]}),
        (x, C, {"beta": 1, "C": C.T}),
    ]
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
    "every third row": (np.s_[::3, :20], np.s_[1::3, :20], np.s_[2::3, :20]),
    "reversed": (np.s_[19::-1, 19::-1], np.s_[:20, 39:19:-1], np.s_[:20, 40:]),
}
ON_BLOCKS = [
    lambda a, b, out: td.gemm(a, b, op_b="C", out=out),
    lambda a, b, out: td.gemm(a, a, b, beta=2j, num_moduli=9, out=out),
    lambda a, b, out: td.gemm(a, b, diag=b[:, 3], out=out),
    lambda a, b, out: td.gemm(a, b, method="blas", out=out),
    lambda a, b, out: td.herk(a, b, beta=0.5, out=out),
    lambda a, b, out: td.her2k(a, b, out=out),
    lambda a, b, out: td.matmul(a, b, out=out),
    lambda a, b, out: td.einsum("ij,kj->ik", a, b, out=out),
]


@cases("call", ON_BLOCKS)
@cases("blocks", BLOCKS)
@cases("turn", [False, True])
def test_blocks_of_one_matrix_are_read_and_written(blocks, turn, call):
    whole = random_matrix(60, 60, seed=3)
    kept = whole.copy()
    a, b, out = ((whole.T if turn else whole)[x] for x in BLOCKS[blocks])
    # NumPy's bits may be others for copies, which its BLAS takes.
    expected = call(a, b, None)
    assert call(a, b, out) is out
    assert out.tobytes() == expected.tobytes()
    (kept.T if turn else kept)[BLOCKS[blocks][2]] = expected
    assert whole.tobytes() == kept.tobytes()


def halves(path, mode="r+"):
    """View the halves of a file by a memory map of its own."""
    whole = np.memmap(path, complex, mode, shape=(2 * N, N))
    return whole[:N], np.asarray(whole)[N:]


def second_half(path, mode="r+"):
    return np.memmap(path, complex, mode, N * N * 16, (N, N))


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_another_map_of_the_file_that_is_written_to_is_not_read(here, mode):
    np.tile(random_matrix(N, N), (2, 1)).tofile("file")
    os.link("file", "hard")
    os.symlink("file", "soft")
    before = np.fromfile("file", complex)
    for name in ("file", here / "file", "hard", "soft"):
        first, second = halves(name, mode)
        part = second_half(name, mode)
        for x, y in ((first, 0), (second, 1), (part, 1), (second.T, 1), (part[3:], 1)):
            out = (halves("file")[0], second_half("file"))[y]
            for call in (td.gemm, td.matmul, partial(td.einsum, "ij,jk->ik")):
                with raises(PlanError, "out"):
                    call(np.ones((N, len(x))), x, out=out)
    assert np.fromfile("file", complex).tobytes() == before.tobytes()
    first, out = halves("file", mode)[0], halves("file")[0]
    os.remove("file")  # and it is still one
    with raises(PlanError, "out"):
        td.gemm(np.ones((N, N)), first, out=out)


def test_other_parts_of_a_file_and_other_files_may_be_written_to(here):
    values = random_matrix(2 * N, N)
    for name in ("file", "other"):
        values.tofile(name)
    first, second = halves("file", "r")
    expected = td.gemm(first, first)
    for out in (second_half("file"), halves("other")[0], halves("file", "c")[0]):
        assert td.gemm(first, first, out=out) is out
        assert (out == expected).all()
    assert (first == values[:N]).all()  # what is written to "c" stays in memory
    assert (second == expected).all()


@cases("subscripts", ["ij->ji", "ij,jk,kl->l"])
def test_einsum_of_one_and_of_three_writes_to_out(subscripts):
    operands = [np.ones((2, 3)), np.eye(3), np.ones((3, 4))]
    operands = operands[: subscripts.count(",") + 1]
    expected = np.einsum(subscripts, *operands)
    out = np.empty_like(expected)
    assert td.einsum(subscripts, *operands, out=out) is out
    assert (out == expected).all()
    x, out = np.ones(3), np.zeros(())
    for found in (td.einsum("i,i->", x, x, out=out), td.matmul(x, 2 * x, out=out)):
        assert found is out
