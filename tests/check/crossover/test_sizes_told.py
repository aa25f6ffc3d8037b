"""The sizes that the doctor names for a chip."""

import dask
import pytest

from twom_dist.crossover.chips import Chip
from twom_dist.crossover.choose import tell_sizes


@pytest.fixture(autouse=True)
def no_measurements(tmp_path):
    with dask.config.set({"twom-dist.crossovers": str(tmp_path)}):
        yield


def test_kinds_are_named_from_the_smallest_size_on():
    assert tell_sizes(Chip("Old CPU, 2 cores")) == "all products are native"
    herk = "herk complex64, herk complex128"
    told = tell_sizes(Chip("New CPU, 2 cores", vnni=True))
    assert told == f"int8 from n = 1023 on for {herk}; else native"
    told = tell_sizes(Chip("CPU with tiles", vnni=True, amx=True))
    assert told.endswith("; from n = 2046 on for gemm complex128; else native")
    told = tell_sizes(Chip("A card", 89))
    assert told.startswith("int8 from n = 600 on for gemm complex128, ")
    assert "; from n = 900 on for gemm float64, syrk float64; " in told


def test_a_setting_moves_all_sizes():
    with dask.config.set({"twom-dist.blas-below": 50}):
        told = tell_sizes(Chip("A card", 89))
    assert told == "int8 from n = 150 on, by the setting twom-dist.blas-below"
