"""The reduction that encode, requantise and combine share, over all it can be given."""

import ctypes

import numpy as np
import pytest

from tests.support.cuda.host import HostKernels, host_text
from twom_dist.kernels.cuda.sources import Module
from twom_dist.kernels.cuda.tables import (
    encode_table,
    mirror_entry,
    reduction_constants,
    requantise_table,
)
from twom_dist.moduli import Mirror, available_moduli, residue_system

METHODS = ("2m", "3m", "4m", "hybrid", "eisenstein", "real")

# The first raw value below `count` whose low byte is not its symmetric residue, or
# `count`. 256 has two symmetric residues of 128, with one byte.
_SWEEP = """
extern "C" uint32 sweep(int32 p, uint32 inverse, uint32 minus_p, uint32 count) {
  int32 expected = 0;
  for (uint32 raw = 0; raw < count; ++raw) {
    uint32 bits = residue_bits(raw, __uint_as_float(inverse), minus_p);
    if ((uint8)bits != (uint8)expected) return raw;
    expected = expected + 1 > (p - 1) / 2 ? expected + 1 - p : expected + 1;
  }
  return count;
}
"""


def every_modulus() -> list[int]:
    return sorted({p for method in METHODS for p, _ in available_moduli(method)})


@pytest.fixture(scope="module")
def sweep(host_kernels: HostKernels):
    text = host_text(Module("requantise"), _SWEEP)
    function = host_kernels.compile(text, ("-mfma",) if _has_fma() else ()).sweep
    function.argtypes = [ctypes.c_uint] * 4
    function.restype = ctypes.c_uint
    return function


def _has_fma() -> bool:
    try:
        with open("/proc/cpuinfo") as file:
            return any(" fma " in line for line in file if line.startswith("flags"))
    except OSError:
        return False


def test_every_raw_value_of_every_modulus_is_reduced(sweep):
    for p in every_modulus():
        count = 1 << 23 if p in (256, 255, 241, 29, 19) else 1 << 20
        inverse, minus_p = reduction_constants(p)
        assert sweep(p, inverse, minus_p, count) == count, p
        # The sweep would see a wrong inverse; of 256 any quotient leaves the low byte.
        assert p == 256 or sweep(p, inverse + (1 << 6), minus_p, count) < count, p


def byte_sum(words: np.ndarray) -> np.ndarray:
    """Largest sum of a dp4a chain over these weights."""
    return 255 * np.ascontiguousarray(words).view(np.uint8).sum(axis=1, dtype=np.int64)


@pytest.mark.parametrize("method", METHODS)
def test_raw_sums_stay_where_the_reduction_is_exact(method):
    """Below 2^20 with the two words of native double precision, always below 2^23."""
    for count in range(1, len(available_moduli(method)) + 1):
        table = encode_table(residue_system(method, count)).astype(np.int64)
        words = (table.shape[1] - 5) // 2
        weights = encode_table(residue_system(method, count))
        limit = 1 << 20 if words <= 2 else 1 << 23
        re = byte_sum(weights[:, 5 : 5 + words]) + table[:, 3]
        im = byte_sum(weights[:, 5 + words :]) + table[:, 4]
        lift = table[:, 2]
        assert (lift >= im).all()
        assert (re + np.maximum(im, lift) < limit).all()


def test_raw_sums_of_requantise_and_combine():
    for method in METHODS:
        table = requantise_table(residue_system(method, len(available_moduli(method))))
        assert (byte_sum(table[:, :1]) + table[:, 1] + 127 < 1 << 18).all()
        assert (table[:, 1] >= 128).all()
    for p in every_modulus():
        lift = mirror_entry(1, Mirror(0, 0, 1), p)[6]
        assert lift % p == 0
        assert 3 * 128 * 128 <= lift < (1 << 17) - 3 * 128 * 128
