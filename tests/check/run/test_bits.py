"""One table: the bits of NumPy for every routine, tiling, method, dtype and engine.

What is special of one of them is tested where it is: updates in test_rank_k_dask.py,
equilibration and estimates in tests/check/tiles, two words in tests/check/api.
"""

from itertools import product

import dask
import dask.array as da
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.strategies import DTYPES, ENGINE_NAMES, random_matrix
from tests.support.tilings import TILINGS, K, M, N

METHODS = ("2m", "3m", "4m", "hybrid", "eisenstein")
UPLOS = ("full", "lower", "upper")
PANELS = (1, "4 kB", "1 GiB")
# What is not in the product turns at another pace each, so that every two meet.
TABLE = [
    (tiling, engine, scheduler, METHODS[i % 5], DTYPES[(i + i // 4) % 4], i)
    for i, (tiling, engine, scheduler) in enumerate(
        product(TILINGS, ENGINE_NAMES, ("sync", "threads"))
    )
]


@pytest.mark.parametrize("name", ["gemm", "herk", "syrk", "her2k", "syr2k"])
@cases(("tiling", "engine", "scheduler", "method", "dtype", "turn"), TABLE)
def test_bits(name, tiling, engine, scheduler, method, dtype, turn):
    routine, (m, n, k) = getattr(td, name), TILINGS[tiling]
    if name == "gemm":
        chunks = m, n
        operands = [((M, K), (m, k)), ((K, N), (k, n)), ((M, N), chunks)]
    else:
        chunks = m, m
        operands = [((M, K), (m, k))] * (1 + ("2k" in name)) + [((M, M), 9)]
    matrices = [random_matrix(*x, dtype, seed=i) for i, (x, _) in enumerate(operands)]
    lazy = [
        da.from_array(x, chunks=own)
        for x, (_, own) in zip(matrices, operands, strict=True)
    ]
    scalar = 0.5 - 2j if name == "gemm" and dtype.startswith("complex") else 0.5
    options = {"alpha": scalar, "beta": -1.5, "method": method}
    if name != "gemm":
        options["uplo"] = UPLOS[turn // 3 % 3]
    with dask.config.set({"twom-dist.panel-bytes": PANELS[turn % 3]}):
        found = routine(*lazy, engine=engine, **options)
    assert found.chunks == chunks
    expected = routine(*matrices, **options)
    assert same_bits(found.compute(scheduler=scheduler), expected)
