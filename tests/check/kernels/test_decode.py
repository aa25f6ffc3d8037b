"""Decode by the engines of NumPy: their contract, padding, and the CPU's registers."""

import numpy as np
import pytest

from tests.support.assembly import assemble, find_loops
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.contract.decode import *  # noqa: F403
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.decode import sums
from twom_dist.moduli import residue_system


@pytest.fixture
def stages(engine):
    """Both engines."""
    return engine


@cases("method", ["real", "2m", "3m", "4m", "hybrid", "eisenstein"])
@cases("n", [1, 13, 256, 300])
def test_what_rows_of_residues_are_padded_with_is_not_read(method, n):
    system = residue_system(method, 17)
    rng = np.random.default_rng(n)
    padded = rng.integers(-60, 61, (system.num_products, 3, n + 19), dtype=np.int8)
    rows = np.array([0, 3, -2000], np.int32)
    columns = rng.integers(-30, 30, n).astype(np.int32)
    dtype = np.float64 if method == "real" else np.complex128
    args = rows, columns, system, dtype
    cut = np.ascontiguousarray(padded[:, :, :n])
    expected = get_engine("reference").decode(cut, *args)
    assert same_bits(get_engine("cpu").decode(padded, *args), expected)


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
