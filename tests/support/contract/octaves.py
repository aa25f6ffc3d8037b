"""Octaves of entries, counted and multiplied."""

import numpy as np

from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.pipeline import REFERENCE
from tests.support.strategies import DTYPES, random_matrix, turned
from twom_dist.kernels.statistics import COUNTED, FAR, NONE


@cases("dtype", DTYPES)
def test_octaves_and_columns_of_stacks(engine, dtype):
    stack = np.stack([random_matrix(5, 9, dtype, 4.0, seed) for seed in range(3)])
    stack[1, 2, 3], stack[0, :, 1] = np.nan, 0
    largest = REFERENCE.measure(stack, 20).largest
    expected = [REFERENCE.octaves(*t) for t in zip(stack, largest, strict=True)]
    for own in (stack, turned(stack)):
        assert same_bits(engine.octaves(own, largest), np.array(expected))
        found = engine.measure(own, 20, ("columns",), largest=largest).columns
        alone = [REFERENCE.measure(x, 20, ("columns",)).columns for x in stack]
        assert same_bits(found, np.array(alone))


def test_octaves_are_those_of_the_larger_part(engine):
    x = np.array([[1, 0.5j, 0.75 + 2j, 3.9, 0, 2.0**-61, 2.0**-62, 1e-310]])
    largest = engine.measure(x, 20).largest
    found = engine.octaves(x, largest)
    assert found.tolist() == [[1, 2, 0, 0, NONE, 62, FAR, FAR]]
    tiny = np.array([[2.0**-1040, 2.0**-1030], [np.nan, 1], [np.inf, 1], [0, 0]])
    found = engine.octaves(tiny, engine.measure(tiny, 20).largest)
    assert found.tolist() == [[10, 0], *[[NONE, NONE]] * 3]


def test_counts_are_those_down_to_each_octave(engine):
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (9, 300), (40, 70), (3, 5, 70)):
        x = np.ldexp(1.5, -rng.integers(0, 80, shape))
        x *= rng.random(shape) < 0.9
        for own in (x, turned(x)):
            found = engine.measure(own, 20, ("squares", "totals", "octaves"))
            octaves = engine.octaves(own, found.largest)
            expected = np.stack(
                [(octaves <= end).sum(axis=-1) for end in COUNTED], axis=-1
            )
            assert same_bits(found.octaves, expected.astype(np.int32))


@cases("shape", [(1, 1, 1), (2, 3, 5), (70, 3, 33), (65, 130, 100), (3, 4, 0)])
def test_products_are_the_least_sums(engine, shape):
    m, n, k = shape
    rng = np.random.default_rng([*shape])
    x, y = (
        rng.choice([*range(63), FAR, NONE], (rows, k)).astype(np.uint8)
        for rows in (m, n)
    )
    x[:, : k // 2], y[: n // 2] = NONE, NONE
    sums = x[:, np.newaxis].astype(int) + y
    expected = np.minimum(sums.min(axis=2, initial=NONE), NONE).astype(np.uint8)
    assert same_bits(engine.multiply_octaves(x, y), expected)
