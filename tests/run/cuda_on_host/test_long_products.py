"""Long products in several launches: their order, their number, the same bits."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cuda.host_device import launches_of_products
from tests.support.cuda.on_cpu import on_cpu
from tests.support.strategies import random_matrix
from twom_dist.kernels.cuda import tuning
from twom_dist.kernels.cuda.products import launch_products
from twom_dist.kernels.cuda.scripts import Script
from twom_dist.moduli import residue_system

FUSED = pytest.mark.parametrize("engine", [80, 90], indirect=True)


@pytest.fixture
def short(monkeypatch):
    """Have every launch take a wave."""
    monkeypatch.setattr(tuning, "LAUNCH_OPERATIONS", {"wgmma": 1.0, "mma": 1.0})


@FUSED
@pytest.mark.parametrize(
    ("routine", "shape", "options"),
    [
        (td.gemm, (300, 20), {"op_b": "C"}),
        (td.herk, (300, 20), {"uplo": "upper"}),
        (td.gemm, (9, 40, 30), {"op_b": "C"}),
    ],
)
def test_launches_of_a_wave_give_the_bits_of_one(
    cuda, short, monkeypatch, routine, shape, options
):
    given = [random_matrix(np.prod(shape[:-1]), shape[-1], seed=s) for s in (1, 2)]
    given = [x.reshape(shape) for x in given][: 2 if routine is td.gemm else 1]
    options |= {"num_moduli": 3}
    expected = on_cpu(routine, *given, **options)
    scripts, run = [], Script.run
    monkeypatch.setattr(Script, "run", lambda *on: scripts.append(on) or run(*on))
    for first in (True, False):
        cuda.device.launched.clear()
        assert same_bits(routine(*given, **options), expected)
        [name] = launches_of_products(cuda.device)
        assert cuda.device.launched.count(name) > 1
        assert bool(scripts) != first


@FUSED
@pytest.mark.parametrize("overwrite", [False, True])
def test_earlier_residues_are_added_once(engine, short, overwrite):
    system = residue_system("2m", 2)
    x, y = (
        engine.encode(random_matrix(n, 30, seed=n), np.full(n, 9, np.int32), system)
        for n in (140, 270)
    )
    once = engine.multiply(x, y, system)
    engine.device.launched.clear()
    twice = engine.multiply(x, y, system, once.copy(), overwrite=overwrite)
    assert len(engine.device.launched) > 1
    for found, before, product in zip(twice, once, system.products, strict=True):
        total = 2 * before[:, :270].astype(int)
        assert not ((found[:, :270] - total) % product.p).any()


@pytest.mark.parametrize(
    ("capability", "multiprocessors", "n", "launches"),
    [(90, 132, 4096, 1), (90, 132, 8192, 5), (90, 132, 16384, 39), (89, 128, 8192, 12)],
)
def test_every_launch_but_the_last_has_whole_waves(
    capability, multiprocessors, n, launches
):
    launched, system = [], residue_system("2m", 16)
    device = SimpleNamespace(
        capability=lambda: capability,
        multiprocessors=lambda: multiprocessors,
        launch=lambda *given: launched.append(given),
        constant=lambda table: table,
        address=lambda x: 0,
        map_planes=lambda *given: given,
    )
    planes = SimpleNamespace(shape=(32, n, n))
    residues = SimpleNamespace(strides=(n * n, n, 1))
    jobs = np.zeros((32, 4), np.int32)
    given = planes, planes, jobs, system, (n, n), residues, None, "full"
    launch_products(device, *given)
    assert len(launched) == launches
    one_grid = capability != 90
    grids = [grid[0] for _, _, grid, *_ in launched]
    parts = [[*map(int, given[4][-2:])] for given in launched]
    if one_grid:
        parts = [
            [first, first + grid] for (_, first), grid in zip(parts, grids, strict=True)
        ]
    wave = 2 * multiprocessors if one_grid else multiprocessors // 2
    squares = 32 * (n // (128 if one_grid else 256)) ** 2
    assert parts[0][0] == 0
    assert parts[-1][1] == squares
    assert all(x[1] == y[0] for x, y in pairwise(parts))
    assert all((end - first) % wave == 0 for first, end in parts[:-1])
    assert one_grid or {*grids} == {multiprocessors}
