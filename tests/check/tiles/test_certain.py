"""The bracket of what pairs find, of the matrices of a stack."""

import numpy as np
import pytest

import twom_dist as td
from tests.support.strategies import DTYPES, random_matrix
from twom_dist.kernels import get_engine
from twom_dist.moduli import norm_bits
from twom_dist.problem.problem import of_arrays
from twom_dist.tiles.look import certain, every_pair
from twom_dist.tiles.look.angles import find_cosines
from twom_dist.tiles.look.measured import Measured


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [4, 50])
def test_cosines_that_pairs_find_are_inside(dtype, k):
    """Where magnitudes are cut, and where most of them are cut to nothing."""
    engine, inside = get_engine("cpu"), 0
    x = np.array(
        [
            random_matrix(5, k, dtype, phi, seed)
            for phi in (0, 1, 3)
            for seed in range(9)
        ]
    )
    x[::2, :, k // 2 :] *= 2.0**-11
    largest = engine.largest_exponents(x)
    known = Measured(largest, *engine.row_sums(x, largest, norm_bits(k)))
    spec = of_arrays(*td.syrk.ask(x[0])[:2], None, None).spec
    smallest = find_cosines(known, k).min(axis=1)
    given = [x], [known], np.arange(len(x)), (smallest, smallest), 1.0, spec
    least, most, told = certain._bound_cosines(*given)
    places = np.tril_indices(5)
    for i in np.flatnonzero(told):
        own = known.take(i)
        rows = every_pair._list_rows(own, k)
        pairs = every_pair._OpenPairs(tuple, rows, rows, 0.0, spec)
        magnitudes = engine.magnitudes(x[i], largest[i])
        bits = every_pair.magnitude_bits(k)
        terms = engine.bound_pairs(magnitudes, magnitudes, *places, bits)
        found = pairs.largest_of(*places, terms, 0.0) ** -0.5
        assert least[i] <= found <= most[i] * (1 + 2.0**-19)
        inside += 1
    assert inside > 12


def test_systems_that_are_certain_are_those_of_each_matrix():
    x = np.array([random_matrix(4, 20, "float64", 3, seed) for seed in range(300)])
    engine = get_engine("cpu")
    largest = engine.largest_exponents(x)
    known = Measured(largest, *engine.row_sums(x, largest, norm_bits(20)))
    spec = of_arrays(*td.syrk.ask(x[0])[:2], None, None).spec
    systems = certain.certain_systems(x, x, [known], spec)
    both = [(t, one) for t, one in zip(systems, x, strict=True) if t is not None]
    assert len(both) > 200
    for system, one in both:
        assert td.explain(td.syrk, one).num_moduli == system.num_moduli
