"""Eisenstein integers in the encode and decode kernels, against the reference."""

import re
from importlib.resources import files

import numpy as np
import pytest

from tests.support.cases import sample
from tests.support.points import (
    awkward_entries,
    points_at_the_edge,
    points_of_half_digits,
    residues_of_points,
)
from twom_dist.kernels import get_engine
from twom_dist.kernels.hexagonal import HALF_ROOT, INVERSE_ROOT
from twom_dist.moduli import available_moduli, residue_system

REFERENCE = get_engine("reference")
COUNTS = range(1, len(available_moduli("eisenstein")) + 1)


def test_kernels_have_the_words_of_the_roots():
    text = files("twom_dist.kernels.cuda").joinpath("hexagonal.cuh").read_text("utf-8")
    words = re.findall(r"^#define \w+_(?:FIRST|SECOND) (\S+)$", text, re.MULTILINE)
    assert tuple(map(float.fromhex, words)) == (*INVERSE_ROOT, *HALF_ROOT)


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("count", [4, 8, 16, 17, 23])
def test_entries_are_rounded_alike(calls, count, conjugate):
    """With 1 to 3 words, up to the longest that they hold."""
    system = residue_system("eisenstein", count)
    x = awkward_entries()
    down = min(0, system.capacity.bit_length() // 2 - 80)
    for exponent in (down, down - 30, -300):
        exponents = np.full(1, exponent, np.int32)
        found = calls.encode(x, exponents, system, conjugate=conjugate)
        given = {"conjugate": conjugate}
        expected = REFERENCE.encode(x, exponents, system, **given)
        assert (found[:, :1, : x.size] == expected.residues()).all()


@sample("count", COUNTS, [1, 4, 8, 15, 16, 17, COUNTS[-1]])
def test_points_are_decoded_alike(calls, count):
    system = residue_system("eisenstein", count)
    points = points_at_the_edge(system) + points_of_half_digits(system)
    args = residues_of_points(points, system), np.zeros(1, np.int32)
    args += np.zeros(len(points), np.int32), system, np.complex128
    for words in (1, 2):
        found = calls.decode(*args, words=words)
        assert found.tobytes() == REFERENCE.decode(*args, words=words).tobytes()
