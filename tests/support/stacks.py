"""Stacks of matrices, and their products beside those of each matrix alone."""

from itertools import product as every

import numpy as np

import twom_dist as td
from tests.support.expect import same_bits
from tests.support.strategies import random_matrix
from twom_dist.tiles.routine import ROUTINES


def random_stack(stack, m, k, dtype, seed):
    count = int(np.prod(stack))
    drawn = [
        random_matrix(m, k, dtype, 1.0, [seed, i]) * 4.0 ** (i % 9)
        for i in range(count)
    ]
    return np.array(drawn, dtype).reshape(*stack, m, k)


def assert_each_is_as_alone(found, name, *given, **options):
    for place in every(*map(range, found.shape[:-2])):
        alone = [None if x is None else x[place] for x in given]
        alone = alone[:1] + alone[2:] if ROUTINES[name].matrices == 1 else alone
        assert same_bits(found[place], getattr(td, name)(*alone, **options)), place
