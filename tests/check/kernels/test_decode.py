"""Decode by the engines of NumPy, and the registers that the CPU takes for it."""

from fractions import Fraction

import numpy as np
import pytest

import twom_dist as td
from tests.support.assembly import assemble, find_loops
from tests.support.contract.decode import *  # noqa: F403
from tests.support.contract.hexagonal import *  # noqa: F403
from tests.support.oracle import ExactProduct
from tests.support.points import ROOT_3
from tests.support.strategies import random_matrix
from twom_dist.kernels.cpu.decode import sums
from twom_dist.kernels.hexagonal import HALF_ROOT, INVERSE_ROOT
from twom_dist.moduli import residue_system
from twom_dist.moduli.accuracy import error_bound


@pytest.mark.parametrize(
    ("cpu", "features"), [("sapphirerapids", {"avx512f"}), ("haswell", set())]
)
def test_sums_stay_in_registers(monkeypatch, cpu, features):
    """Each vector is loaded and converted by one instruction, and never spilt."""
    monkeypatch.setattr(sums, "find_features", lambda: frozenset(features))
    lines = assemble(sums._sum_three, cpu)
    assert not any("mm" in line and "rsp" in line for line in lines)
    for loop in find_loops(lines):
        names = [line.split()[0] for line in loop if not line.endswith(":")]
        moduli = names.count("vbroadcastsd") // 3
        assert moduli > 0
        assert sum(name.startswith("vfmadd") for name in names) == 6 * moduli
        assert names.count("vcvtdq2pd") == 2 * moduli
        assert not any("pmovsx" in name for name in names)


def test_roots_of_3_have_two_words():
    for words, root in ((INVERSE_ROOT, ROOT_3 / 3), (HALF_ROOT, ROOT_3 / 2)):
        first, second = map(Fraction, words)
        assert words[0] == float(root)
        assert abs(first + second - root) < Fraction(1, 1 << 107)


@pytest.mark.parametrize("count", [3, 8, 14, 16, 20])
def test_errors_of_eisenstein_integers_are_within_the_bound(count):
    """That of Gaussian integers with as large a product of moduli."""
    system = residue_system("eisenstein", count)
    for phi in (0, 1, 4):
        A, B = (random_matrix(20, 20, phi=phi, seed=[count, s]) for s in (1, 2))
        C = td.gemm(A, B, method="eisenstein", num_moduli=count)
        error = ExactProduct(A, B).normwise_error(C)
        assert error <= error_bound(system, 20, "complex128")


def test_errors_of_both_operands_are_bounded_together():
    """Every entry of either is rounded from 1.5 to 2, at the smallest scale."""
    x = np.full((1, 11), 1.5)
    found = ExactProduct(x, x.T).normwise_error(td.gemm(x, x.T, num_moduli=1))
    bound = error_bound(residue_system("real", 1), 11, "float64")
    assert found == pytest.approx(7 / 9)
    assert found <= bound < 0.9


def test_real_integers_are_exact():
    """They lie on the lattice; imaginary ones do not."""
    A, B = np.random.default_rng(1).integers(-(2**20), 2**20, (2, 9, 9)) + 0j
    assert (td.gemm(A, B, method="eisenstein") == A @ B).all()
