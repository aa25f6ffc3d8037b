"""The kernels of Winograd's form: the residues of products by halves, on the host."""

import dask
import numpy as np
import pytest

from tests.check.kernels.test_winograd import encode, extreme_planes
from tests.support.bits import same_bits
from tests.support.cases import sample
from tests.support.cuda.host_device import host_engine
from tests.support.pipeline import add_both_ways
from twom_dist.kernels.cuda import tuning
from twom_dist.moduli import residue_system

# Groups of 64 rows and lines of 128 bytes: odd numbers of them, ragged ends, quarters
# past the end of a plane.
SHAPES = {1: [(65, 129, 130), (130, 70, 300)], 2: [(193, 200, 390), (210, 260, 520)]}


@pytest.fixture(scope="module")
def engine(host_kernels):
    return host_engine(host_kernels)


def multiply_by_levels(engine, levels, panels, system, n, **options):
    found = []
    for count in (0, levels):
        with dask.config.set({"twom-dist.winograd-levels": count}):
            (left, right), *others = panels
            sums = engine.multiply(left, right, system, **options)
            for left, right in others:
                given = engine, left, right, system, sums
                sums, in_place = add_both_ways(*given, **options)
                assert (sums == in_place).all()
        found.append(np.ascontiguousarray(sums[..., :n]))
    return found


@sample("choice", [("2m", 2), ("4m", 1), ("real", 2)], [("2m", 2)])
@pytest.mark.parametrize("levels", [1, 2])
def test_the_same_residues(engine, monkeypatch, choice, levels):
    # A few products at a time: the last ones are fewer.
    monkeypatch.setattr(tuning, "QUARTERS_BYTES", 3 << 20)
    system = residue_system(*choice)
    for m, n, k in SHAPES[levels][: 2 if choice[0] == "2m" else 1]:
        panels = [
            [encode(engine, rows, k, choice[0], system, seed) for rows in (m, n)]
            for seed in (1, 2)
        ]
        engine.device.launched.clear()
        plain, fast = multiply_by_levels(engine, levels, panels, system, n)
        assert {"spread", "join"} <= set(engine.device.launched)
        assert same_bits(fast, plain)


@pytest.mark.parametrize("levels", [1, 2])
def test_the_largest_residues(engine, levels):
    """128 of the modulus 256, too."""
    m, n, k = SHAPES[levels][0]
    system = residue_system("real", 3)
    panels = [
        [extreme_planes(engine, system, rows, k, [rows, k]) for rows in (m, n)]
        for k in (k, k - 2)
    ]
    plain, fast = multiply_by_levels(engine, levels, panels, system, n)
    assert same_bits(fast, plain)


@pytest.mark.parametrize("triangle", ["full", "lower", "upper"])
def test_a_product_of_a_matrix_with_itself(engine, triangle):
    system = residue_system("2m", 2)
    panels = []
    for seed in (1, 2):
        left = encode(engine, 130, 300, "2m", system, seed)
        panels.append((left, engine.reorder(left, system.conjugate_planes)))
    engine.device.launched.clear()
    options = {"hermitian": True, "triangle": triangle}
    plain, fast = multiply_by_levels(engine, 1, panels, system, 130, **options)
    assert "join" in engine.device.launched
    wanted = {"full": np.ones, "lower": np.tri, "upper": lambda n: np.tri(n).T}
    given = wanted[triangle](130 if triangle != "full" else (130, 130)) > 0
    assert (fast == plain)[:, given].all()


@pytest.mark.parametrize("workspace", ["1 MiB", "4 GiB"])
def test_a_workspace_too_small_for_quarters(engine, workspace):
    system = residue_system("2m", 2)
    left = encode(engine, 130, 300, "2m", system, 1)
    engine.device.launched.clear()
    with dask.config.set({"twom-dist.workspace-bytes": workspace}):
        plain, found = multiply_by_levels(engine, 1, [(left, left)], system, 130)
    assert same_bits(found, plain)
    assert ("spread" in engine.device.launched) == (workspace == "4 GiB")
