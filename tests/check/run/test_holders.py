"""The order of tiles along k: layers take what one of their workers holds."""

import random
from collections import Counter

from tests.support.cases import cases
from twom_dist.run.holders import share_out


@cases("layers", [1, 2, 5])
@cases("holders", [1, 3, 5, 8])
@cases("count", [5, 12, 41])
def test_shares_are_whole_and_as_much_as_possible_is_held(count, holders, layers):
    draw = random.Random(count + holders + layers)
    where = [draw.choice([None, *range(holders)]) for _ in range(count)]
    small, more = divmod(count, layers)
    lengths = [small + (n < more) for n in range(layers)]
    order = share_out(where, lengths)
    assert sorted(order) == [*range(count)]
    there = Counter(x for x in where if x is not None)
    largest = sorted(there.values(), reverse=True)
    best = sum(map(min, sorted(lengths, reverse=True), largest))
    found, start = 0, 0
    for length in lengths:
        own = Counter(where[s] for s in order[start : start + length])
        own.pop(None, None)
        found += max(own.values(), default=0)
        start += length
    assert found >= best


def test_without_holders_the_order_stays():
    assert share_out([None] * 5, [3, 2]) == (0, 1, 2, 3, 4)
