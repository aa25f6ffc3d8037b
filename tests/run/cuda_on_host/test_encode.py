"""What suits the words and the memory of the kernels that encode, and their text."""

import numpy as np
import pytest

from tests.support.bits import same_bits
from tests.support.cuda.host import HostKernels
from tests.support.cuda.host_device import HostDevice, host_engine
from tests.support.cuda.operands import LAYOUTS
from tests.support.pipeline import dtype_for, run_stages
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda.at_once import fits, rows_of_block
from twom_dist.moduli import residue_system


@pytest.mark.parametrize("choice", [("2m", 16), ("hybrid", 22), ("real", 15)])
def test_systems_that_are_constants_of_a_text_give_the_bits_of_variables(
    kept, host_kernels, choice
):
    """As on a device; those tests that share what is built have variables."""
    engine = host_engine(HostKernels(kept, specialised=True))
    system, dtype = residue_system(*choice), dtype_for(choice[0])
    x, y = (random_matrix(rows, 9, dtype, 2.0, rows) for rows in (5, 7))
    found, expected = (
        run_stages(own, x, y, system) for own in (engine, get_engine("cpu"))
    )
    assert all(same_bits(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_fingerprint_does_not_see_layouts(engine, dtype):
    x = random_matrix(37, 75, dtype)
    assert len({engine.fingerprint(lay(x)) for lay in LAYOUTS.values()}) == 1


@pytest.mark.parametrize(
    ("capability", "k"), [(75, 1664), (80, 4864), (89, 2816), (90, 6912)]
)
def test_shared_memory_keeps_two_of_the_longest_rows_that_fit(capability, k):
    device = HostDevice(None, capability)
    limit = device.shared_bytes()
    for dtype in map(np.dtype, DTYPES):
        method = "2m" if dtype.kind == "c" else "real"
        most, system = k if dtype.kind == "c" else 2 * k, residue_system(method, 3)
        assert fits(device, system, most)
        assert not fits(device, system, most + 129)
        for across in (False, True):
            chosen = []
            for length in range(128, most + 1, 128):
                rows, kept = rows_of_block(across, length, dtype.itemsize, limit)
                assert rows * length * dtype.itemsize <= kept <= limit - (5 << 10)
                chosen.append(rows)
            assert chosen == sorted(chosen, reverse=True)
            assert capability == 75 or chosen[0] == (8 if across else 4)


def test_rows_that_lie_across_share_what_is_read_where_two_blocks_fit():
    item, shared = np.dtype("complex128").itemsize, 227 << 10
    rows = [rows_of_block(True, k, item, shared)[0] for k in (1024, 3072, 4096)]
    assert rows == [2, 2, 1]
