"""Small updates on Hopper: what they launch beside gemm, and what that predicts."""

import pytest

from benchmarks import small_products
from tests.support.places import ROOT


@pytest.fixture(scope="module")
def recorded():
    given = [
        (name, n) for name in small_products.ROUTINES for n in small_products.SIZES
    ]
    return {x: small_products.record(*x) for x in given}


def squares(recorder):
    return sum(launch.squares for launch in recorder.launches)


@pytest.mark.parametrize("n", small_products.SIZES)
def test_herk_takes_half_of_what_gemm_takes(recorded, n):
    gemm, herk = recorded["gemm", n], recorded["herk", n]
    assert [len(x.launches) for x in (gemm, herk)] == [4, 3]
    assert [len(x.allocated) for x in (gemm, herk)] == [2, 2]
    # Planes of one side, and residues of half the products.
    assert herk.allocated[0] == pytest.approx(gemm.allocated[0] / 2, rel=1e-3)
    assert 2 * squares(herk) == squares(gemm)
    steps = [sum(x.steps for x in own.launches) for own in (gemm, herk)]
    assert steps[0] >= 2 * steps[1] > 0
    moved = [[x.nbytes for x in own.launches] for own in (gemm, herk)]
    # All of the result is written, by both.
    for whole, half, share in zip(*moved, (1 / 2, 1 / 2, 2 / 3), strict=False):
        assert half == pytest.approx(share * whole, rel=1e-2)


@pytest.mark.parametrize("n", small_products.SIZES)
def test_herk_should_be_one_and_a_half_times_as_fast(recorded, n):
    seconds = [recorded[x, n].predicted for x in ("gemm", "herk")]
    assert seconds[0] > 1.5 * seconds[1]


@pytest.mark.parametrize("n", small_products.SIZES)
def test_syrk_leaves_out_the_squares_beyond_the_diagonal(recorded, n):
    side = n // 256
    assert squares(recorded["syrk", n]) == 32 * side * (side + 1) // 2
    assert len(recorded["syrk", n].launches) == 3


def test_the_documentation_shows_what_is_predicted(capsys):
    small_products.main()
    assert capsys.readouterr().out in (ROOT / "docs" / "launches.md").read_text("utf-8")
