"""Exponents and planes of both operands at once, against the reference."""

import numpy as np
import pytest

from tests.support.cases import cases
from tests.support.cuda.host_device import HostDevice
from tests.support.cuda.operands import LAYOUTS, OPERAND_SHAPES, extreme_matrix
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cuda.at_once import fits, rows_of_block
from twom_dist.moduli import residue_system, scaling_rule

REFERENCE = get_engine("reference")
# Of a block on sm_90.
SHARED = 227 << 10


def method_for(dtype: str, method: str = "2m") -> str:
    return method if dtype.startswith("complex") else "real"


def assert_stages_agree(calls, operands, system, limit=SHARED) -> None:
    k = operands[0][0].shape[1]
    rule = scaling_rule(system, k)
    found = calls.scale_and_encode(operands, system, rule, limit)
    for (x, conjugate), (exponents, planes) in zip(operands, found, strict=True):
        largest = REFERENCE.largest_exponents(x)
        sums = REFERENCE.square_sums(x, largest, rule.norm_bits)
        expected = REFERENCE.choose_exponents(largest, sums, rule)
        assert (exponents == expected).all()
        options = {"conjugate": conjugate}
        own = REFERENCE.encode(x, expected, system, **options).residues()
        assert (planes[:, : len(x), :k] == own).all()
        assert not planes[:, len(x) :].any()
        assert not planes[:, :, k:].any()


@pytest.mark.parametrize("shape", [s for s in OPERAND_SHAPES if 0 not in s])
def test_operands_of_every_shape(calls, shape):
    x = random_matrix(*shape, "complex128", 2.0, list(shape))
    y = random_matrix(11, shape[1], "complex128", 2.0, 1)
    system = residue_system("2m", 16)
    assert_stages_agree(calls, [(x, False), (y, True)], system)
    assert_stages_agree(calls, [(np.asfortranarray(x), True)], system)


@pytest.mark.parametrize("limit", [16 << 10, 64 << 10, 99 << 10, SHARED])
@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_of_any_number_of_rows(calls, dtype, limit):
    """A row alone in a block ends within a turn of its threads."""
    x, y = (random_matrix(rows, 1100, dtype, 2.0, rows) for rows in (9, 5))
    x[3, 1099], x[4], y[1, 130] = np.inf, 0, np.nan
    system = residue_system(method_for(dtype), 2)
    operands = [(x, True), (np.asfortranarray(y), False)]
    assert_stages_agree(calls, operands, system, limit)
    assert_stages_agree(calls, [(y, False), (np.asfortranarray(x), False)], system)


@pytest.mark.parametrize(("capability", "k"), [(80, 4864), (89, 2816), (90, 6912)])
def test_shared_memory_keeps_two_of_the_longest_rows_that_fit(capability, k):
    device = HostDevice(None, capability)
    limit = device.shared_bytes()
    for dtype in map(np.dtype, DTYPES):
        system = residue_system(method_for(dtype.name), 3)
        most = k if dtype.kind == "c" else 2 * k
        assert fits(device, system, most)
        assert not fits(device, system, most + 129)
        for across in (False, True):
            chosen = {}
            for length in range(128, most + 1, 128):
                rows, kept = rows_of_block(across, length, dtype.itemsize, limit)
                assert rows * length * dtype.itemsize <= kept <= limit - (5 << 10)
                chosen[length] = rows
            assert list(chosen.values()) == sorted(chosen.values(), reverse=True)
            assert chosen[128] == (8 if across else 4)


def test_turing_keeps_rows_of_whole_lines_as_well():
    """1728 entries would fit, but not the line that they begin."""
    device, system = HostDevice(None, 75), residue_system("2m", 3)
    assert fits(device, system, 1664)
    assert not fits(device, system, 1665)


def test_rows_that_lie_across_share_what_is_read_where_two_blocks_fit():
    item = np.dtype("complex128").itemsize
    rows = [rows_of_block(True, k, item, SHARED)[0] for k in (1024, 3072, 4096)]
    assert rows == [2, 2, 1]


@cases("layout", LAYOUTS)
@cases("dtype", DTYPES)
def test_operands_of_every_layout(calls, dtype, layout):
    x, y = (random_matrix(rows, 37, dtype, 2.0, rows) for rows in (11, 70))
    operands = [(LAYOUTS[layout](x), False), (LAYOUTS[layout](y), True)]
    assert_stages_agree(calls, operands, residue_system(method_for(dtype), 3))


@pytest.mark.parametrize("method", ["2m", "3m", "4m", "hybrid", "eisenstein"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_ends_of_the_format(calls, dtype, method):
    x = extreme_matrix(dtype)
    operands = [(x, False), (np.asfortranarray(x[::-1]), True)]
    for count in (8, 16, 20):
        system = residue_system(method_for(dtype, method), count)
        assert_stages_agree(calls, operands, system)
