"""Residue systems as constants of the kernels' text, as on a device."""

import numpy as np
import pytest

from tests.support.cuda.calls import Calls
from tests.support.cuda.host import HostKernels
from tests.support.cuda.kept import Kept
from tests.support.strategies import random_matrix
from twom_dist.kernels.cuda.sources import module_for, source_of
from twom_dist.moduli import residue_system


@pytest.fixture
def specialised(kept: Kept, host_kernels: HostKernels) -> Calls:
    """The kernels whose text has a residue system, where `host_kernels` have variables.

    Those ask for the compiler.
    """
    return Calls(HostKernels(kept, specialised=True))


@pytest.mark.parametrize("choice", [("2m", 16), ("hybrid", 22), ("real", 15)])
def test_constants_give_the_bits_of_variables(specialised, calls, choice):
    system = residue_system(*choice)
    dtype = "float64" if choice[0] == "real" else "complex128"
    x, e = random_matrix(5, 9, dtype, 2.0, 1), np.arange(40, 45, dtype=np.int32)
    found, expected = (t.encode(x, e, system) for t in (specialised, calls))
    assert (found == expected).all()
    shape = system.num_products, 5, 9
    p = np.array([q.p for q in system.products])[:, None, None]
    residues = np.random.default_rng(1).integers(0, p, shape) - p // 2
    args = residues.astype(np.int8), e, np.zeros(9, np.int32), system, dtype
    found, expected = (t.decode(*args) for t in (specialised, calls))
    assert found.tobytes() == expected.tobytes()


def test_each_system_has_a_text_of_its_own():
    texts = {
        source_of(module_for(family, "complex128", residue_system("2m", count)))
        for family in ("encode", "decode")
        for count in (15, 16)
    }
    assert len(texts) == 4
