"""The cache of encoded tiles: once per block, dead with the block, within budget."""

import gc
import weakref
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
    """Stands for an encoded tile, or for a key with its exponents."""

    name: int = 0
    nbytes: int = 10


def test_a_tile_is_made_once_and_dies_with_its_block():
    cache, (block, other) = EncodedCache(), (np.zeros(3), np.zeros(3))
    get = partial(cache.get, budget=100)
    tile = get(block, "left", Tile)
    assert get(block, "left", Tile) is tile
    assert get(block, "right", Tile) is not tile
    assert get(other, "left", Tile) is not tile
    assert (cache.counters.encoded, cache.counters.reused) == (3, 1)
    key = Tile(7)
    get(block, key, Tile)
    kept = [weakref.ref(x) for x in (tile, key)]
    del block, key, tile
    gc.collect()
    assert [x() for x in kept] == [None, None]
    assert (len(cache), cache.nbytes) == (1, 10)
    for name in range(200):
        # Another one in the place of one that is dead.
        block = np.full(4, name)
        assert get(block, "left", partial(Tile, name)).name == name
        del block
    cache.clear()
    assert (len(cache), cache.nbytes, cache.counters.encoded) == (0, 0, 0)


def test_the_least_recently_used_go_first_and_what_does_not_fit_is_not_kept():
    cache, blocks = EncodedCache(), [np.zeros(1) for _ in range(5)]
    for i, encoded in ((0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (1, 4)):
        cache.get(blocks[i], 0, Tile, budget=25)
        assert cache.counters.encoded == encoded
    assert cache.nbytes == 20
    # A smaller budget counts from the next tile on.
    cache.get(blocks[4], 0, Tile, budget=15)
    assert cache.nbytes == 10
    tiles = [cache.get(blocks[3], 0, Tile, budget=9) for _ in range(2)]
    assert tiles[0] is not tiles[1]


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
    assert (cache.counters.encoded, cache.counters.reused) == (1, 3)
