"""The cache of encoded tiles: once per block, dead with the block, within budget."""

import gc
from dataclasses import dataclass
from functools import partial

import numpy as np

from twom_dist.tiles.cache import EncodedCache


@dataclass(frozen=True)
class Tile:
    """Stands for an encoded tile."""

    name: int = 0
    nbytes: int = 10


def test_a_tile_is_made_once_within_the_budget_and_dies_with_its_block():
    cache, (block, other) = EncodedCache(), (np.zeros(3), np.zeros(3))
    get = partial(cache.get, budget=20)
    tile = get(block, "left", Tile)
    assert get(block, "left", Tile) is tile
    assert get(block, "right", Tile) is not tile
    assert get(other, "left", Tile) is not tile  # for which the first one goes
    assert get(block, "left", Tile) is not tile
    assert (cache.counters.encoded, cache.counters.reused) == (4, 1)
    del block
    gc.collect()
    assert (len(cache), cache.nbytes) == (1, 10)
    for name in range(200):
        # Another one in the place of one that is dead.
        block = np.full(4, name)
        assert get(block, "left", partial(Tile, name)).name == name
        del block
