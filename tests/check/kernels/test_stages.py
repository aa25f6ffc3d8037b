"""Stages of a product by the engines of NumPy; pieces, bands, threads of the CPU."""

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.contract.fill import *  # noqa: F403
from tests.support.contract.finished_tiles import *  # noqa: F403
from tests.support.contract.stages import *  # noqa: F403
from tests.support.pipeline import run_stages
from tests.support.stacks import random_stack
from tests.support.strategies import random_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu import engine as cpu_engine
from twom_dist.kernels.cpu import threads
from twom_dist.kernels.cpu.decode import closing, decode, mirrors
from twom_dist.kernels.cpu.decode.pieces import BAND
from twom_dist.kernels.cpu.decode.sums import COMBINED
from twom_dist.kernels.cpu.encode import encode
from twom_dist.kernels.cpu.products import multiply
from twom_dist.kernels.cpu.tuning import UPDATE_TILE
from twom_dist.kernels.limits import Update
from twom_dist.moduli import residue_system


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads):
    engine, system = get_engine("cpu"), residue_system("2m", 3)
    x, y = random_matrix(600, 40, seed=1), random_matrix(530, 40, seed=2)
    with dask.config.set({"twom-dist.threads": 3}):
        expected = run_stages(engine, x, y, system)
    with dask.config.set({"twom-dist.threads": threads}):
        found = run_stages(engine, x, y, system)
    assert all(same_bits(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("sizes", [(1, 1), (3 << 20, 3 << 20)])
@pytest.mark.parametrize("has_vnni", [True, False])
@cases("uplo", ["full", "upper"])
@cases("dtype", ["float32", "complex128"])
def test_groups_of_rows_and_pieces_of_a_stack(
    monkeypatch, dtype, uplo, has_vnni, sizes
):
    """Pieces of one matrix side by side, and of several that share the threads."""
    for module in (encode, multiply):
        monkeypatch.setattr(module, "has_vnni", lambda: has_vnni)
    monkeypatch.setattr(cpu_engine, "STACK_BYTES", sizes)
    a = random_stack((3,), 96, 512, dtype, 1)
    a[1, 50, 100] = np.nan
    whole = np.full((96, 96, 3), 77, dtype)
    out = whole.transpose(2, 0, 1)
    with dask.config.set({"twom-dist.threads": 2}):
        assert td.herk(a, out=out, num_moduli=5, uplo=uplo) is out
    expected = [td.herk(x, num_moduli=5, uplo=uplo) for x in a]
    assert same_bits(np.ascontiguousarray(out), np.array(expected))


def test_what_a_hermitian_tile_costs():
    products = {
        kind: (system.num_hermitian_products, system.num_products)
        for kind in ("2m", "3m", "4m", "eisenstein", "real")
        for system in [residue_system(kind, 8)]
    }
    # 256 is even: 3M has no half to derive T1 with.
    twos = {"2m": (8, 16), "eisenstein": (8, 16)}
    assert products == twos | {"3m": (17, 24), "4m": (24, 32), "real": (8, 8)}


@cases("halves", [True, False])
@cases("vnni", [True, False])
def test_tiles_are_small_only_where_diagonal_ones_are_multiplied_in_full(
    monkeypatch, vnni, halves
):
    monkeypatch.setattr(cpu_engine, "has_vnni", lambda: vnni)
    given = residue_system("2m", 16), (3000, 3000, 100), Update(halves, two=True)
    limits = get_engine("cpu").tile_limits(*given)
    assert limits.mb == (UPDATE_TILE if halves or vnni else 512)


@pytest.fixture
def in_orders(monkeypatch):
    """Compute in as many pieces as there can be, the first or the last one first."""

    def run(compute):
        for step in (1, -1):
            ran = []

            def run_each(function, pieces, work=None, step=step, ran=ran):
                ran += pieces
                for piece in list(pieces)[::step]:
                    function(piece)

            decode._plan_tile.cache_clear()
            monkeypatch.setattr(decode, "run_each", run_each)
            with threads.limit_threads(2):
                yield compute()
            assert len(ran) > 2

    monkeypatch.setattr(threads, "WORTHWHILE", 1)
    yield run
    decode._plan_tile.cache_clear()


@cases("n", [193, 256, 300])
@cases("method", ["2m", "3m", "4m", "eisenstein"])
@cases("uplo", ["full", "lower", "upper"])
def test_bands_of_an_update_are_closed_in_any_order(in_orders, n, method, uplo):
    """Each mirrors its rows into those of others, which may be decoded later."""
    x = random_matrix(n, 40, "complex128", 1.0, 1)
    c = random_matrix(n, n, "complex128", 1.0, 2)
    c += c.conj().T

    def update():
        return td.herk(x, c, beta=0.5, method=method, num_moduli=11, uplo=uplo)

    with threads.limit_threads(1):
        expected = update()
    assert all(same_bits(found, expected) for found in in_orders(update))
    # What is decoded of a row beyond the diagonal lies in its own band.
    assert not any(BAND % side for side in (mirrors._TILE, closing._SQUARE, COMBINED))
