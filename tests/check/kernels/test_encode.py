"""The planes of the CPU, by VNNI and in float64: those of exact integers."""

import re

import numpy as np
import pytest
from numba import njit

from tests.support.assembly import assemble
from tests.support.cases import cases
from tests.support.stacks import random_stack
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.encode import encode, vnni
from twom_dist.kernels.cpu.encode.vnni import PLANES, weigh_lines
from twom_dist.kernels.cpu.products import microkernel
from twom_dist.kernels.cpu.products.microkernel import Writer
from twom_dist.kernels.cpu.products.reduction import reduction_entry
from twom_dist.moduli import NONFINITE_ROW, residue_system

LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
}


# --- planes -------------------------------------------------------------------------


@cases("layout", LAYOUTS)
@cases("dtype", ["float32", "float64", "complex64", "complex128"])
@cases("choice", [("2m", 3), ("2m", 16), ("eisenstein", 16), ("real", 49)])
def test_planes_are_those_of_exact_integers(monkeypatch, choice, dtype, layout):
    """Whole groups and ragged ones, all strips of k and ends, rows with a NaN."""
    system, rng = residue_system(*choice), np.random.default_rng(1)
    for shape, shifted in (((17, 4 * encode._LINES + 7), True), ((2, 16, 5), False)):
        *before, k = shape
        x = random_stack(shape[:-2], shape[-2], k, dtype, 1)
        x = x.real.copy() if choice[0] == "real" else x
        exponents = rng.integers(3, system.part_bits - 8, before).astype(np.int32)
        x[..., 2, :], x[..., -1, k - 1] = 0, np.nan
        exponents[..., 2], exponents[..., -1] = 0, NONFINITE_ROW
        shifts = rng.integers(-3, 4, k).astype(np.int32) if shifted else None
        given, options = (LAYOUTS[layout](x), exponents, system), {"shifts": shifts}
        options["conjugate"] = shifted
        expected = get_engine("reference").encode(*given, **options).residues()
        for way in (True, False):
            monkeypatch.setattr(encode, "has_vnni", lambda way=way: way)
            found = get_engine("cpu").encode(*given, **options).residues()
            assert (found == expected).all()


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
