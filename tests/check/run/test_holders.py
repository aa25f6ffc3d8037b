"""The order of tiles along k: layers take what one of their workers holds."""

from collections import Counter
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from twom_dist.run.holders import share_out


@given(st.integers(1, 41), st.integers(1, 8), st.integers(1, 5), st.randoms())
def test_shares_are_whole_and_as_much_as_possible_is_held(count, holders, layers, draw):
    where = [draw.choice([None, *range(holders)]) for _ in range(count)]
    lengths = [(count + n) // layers for n in range(layers)][::-1]
    order = share_out(where, lengths)
    assert sorted(order) == [*range(count)]
    there = Counter(x for x in where if x is not None)
    best = sum(map(min, lengths, sorted(there.values(), reverse=True)))
    found = 0
    for start, end in pairwise(accumulate(lengths, initial=0)):
        own = Counter(where[s] for s in order[start:end] if where[s] is not None)
        found += max(own.values(), default=0)
    assert found >= best
    assert any(there.values()) or order == tuple(range(count))
