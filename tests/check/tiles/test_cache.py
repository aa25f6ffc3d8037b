"""The cache of encoded tiles: once per block, dead with the block, within budget."""

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Barrier
from time import sleep

import numpy as np
import pytest

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


def test_threads_that_want_a_tile_at_once_share_it_and_a_failure_leaves_no_trace():
    cache, block, gate = EncodedCache(), np.zeros(1), Barrier(4, timeout=20)

    def slow():
        sleep(0.05)  # long enough for the others to ask meanwhile
        return Tile()

    def ask(_):
        gate.wait()
        return cache.get(block, 0, slow, budget=100)

    with pytest.raises(ZeroDivisionError):
        cache.get(block, 0, lambda: 1 // 0, budget=100)
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(ask, range(4))
    assert all(tile is first for tile in others)
