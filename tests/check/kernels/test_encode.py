"""Encode by the engines of NumPy: their contract, and VNNI's lines."""

import re

import numpy as np
import pytest
from numba import njit

from tests.support.assembly import assemble
from tests.support.contract.encode import *  # noqa: F403
from tests.support.strategies import random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.encode import encode as encoding
from twom_dist.kernels.cpu.encode import vnni
from twom_dist.kernels.cpu.encode.vnni import PLANES, weigh_lines
from twom_dist.kernels.cpu.products import microkernel
from twom_dist.kernels.cpu.products.microkernel import Writer
from twom_dist.kernels.cpu.products.reduction import reduction_entry
from twom_dist.moduli import residue_system


@pytest.fixture(params=["reference", "float64", "vnni"])
def engine(request, monkeypatch):
    """The reference, and both ways of the CPU."""
    monkeypatch.setattr(encoding, "has_vnni", lambda: request.param == "vnni")
    return get_engine("reference" if request.param == "reference" else "cpu")


def test_planes_of_swapped_bytes(engine):
    x, e = random_matrix(6, 11, "complex128", 1.0), np.arange(6, dtype=np.int32) + 3
    swapped = x.astype(x.dtype.newbyteorder(">"))
    assert_planes_agree(engine, swapped, e, residue_system("2m", 3))  # noqa: F405


# --- lines --------------------------------------------------------------------------


@pytest.mark.parametrize("planes", [1, PLANES])
@pytest.mark.parametrize("lanes", [8, 16])
def test_lines_are_those_of_int64(monkeypatch, lanes, planes):
    """By vectors of 16 words or half of that; planes below are not touched."""
    monkeypatch.setattr(vnni, "make_writer", lambda builder: Writer(builder, lanes))

    @njit
    def weigh(words, lines, weights, entries, out):
        where = weights.ctypes.data, entries.ctypes.data, planes, out.ctypes.data
        weigh_lines(words.ctypes.data, words.shape[1], lines, *where, out.strides[0])

    rng = np.random.default_rng(planes)
    words = rng.integers(0, 256, (3, 5, 4, 16, 4)).astype(np.uint8)
    words[0], words[1, 0] = 255, 0
    weights = rng.integers(-128, 128, (5, 16, 4)).astype(np.int8)
    weights[:, 0], weights[:, 1] = -128, 127
    moduli = np.array([256, 241, 255, 19])
    entries, starts = np.zeros(len(moduli), "i4, i4, i4, f4"), np.array([-1, 5, 0, 9])
    for row, (p, start) in enumerate(zip(moduli, starts, strict=True)):
        given = weights[:, row].ravel().tolist()
        entries[row] = 0, *reduction_entry(int(p), int(start), given)
    out = np.full((PLANES, 2, 16, 4), 77, np.int8)
    weigh(words, 2, weights, entries, out)
    exact = np.einsum("lotrb,opb->pltr", *(x.astype(int) for x in (words[:2], weights)))
    exact = exact[:PLANES] + starts[:, None, None, None]
    p = moduli[:, None, None, None]
    expected = ((exact + p // 2) % p - p // 2).swapaxes(2, 3)
    assert (out[:planes] == expected[:planes]).all()
    assert (out[planes:] == 77).all()


def test_residues_of_a_line_are_put_together_in_registers(monkeypatch):
    """Four for an instruction each; nothing is stored but whole lines."""
    monkeypatch.setattr(microkernel, "count_lanes", lambda: 16)
    lines = assemble(weigh_lines, "sapphirerapids")
    names = [line.split()[0] for line in lines]
    # Four vectors of four planes: a word of each, and their quotients.
    assert names.count("vpdpbusd") == 2 * 4 * PLANES
    assert names.count("vpshldd") + names.count("vpshrdd") == 3 * PLANES
    stores = [x for x in lines if re.search(r"mm\d+, .*\)$", x)]
    assert len(stores) == PLANES
    assert all("%zmm" in x for x in stores)
