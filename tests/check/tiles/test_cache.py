"""The cache of encoded tiles: once per block, dead with the block, within budget."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from twom_dist.tiles.cache import EncodedCache


@dataclass(frozen=True)
class Tile:
    """Stands for an encoded tile."""

    name: int = 0
    nbytes: int = 10


class Key:
    """A hashable that can be referred to weakly."""


@pytest.fixture
def cache():
    return EncodedCache()


@pytest.fixture
def get(cache):
    """``cache.get`` with room for ten tiles."""
    return partial(cache.get, budget=100)


def test_a_tile_is_made_once_for_a_block_and_key(cache, get):
    block, other = np.zeros(3), np.zeros(3)
    tile = get(block, "left", Tile)
    assert get(block, "left", Tile) is tile
    assert get(block, "right", Tile) is not tile
    assert get(other, "left", Tile) is not tile
    assert (cache.counters.encoded, cache.counters.reused) == (3, 1)
    assert (len(cache), cache.nbytes) == (3, 30)


def test_an_entry_dies_with_its_block(cache, get):
    block, other = np.zeros(3), np.zeros(3)
    tile = weakref.ref(get(block, "left", Tile))
    get(block, "right", Tile)
    get(other, "left", Tile)
    assert tile() is not None
    del block
    gc.collect()
    assert tile() is None
    assert (len(cache), cache.nbytes) == (1, 10)


@pytest.mark.parametrize("uses", [1, 2, 5])
def test_nothing_is_left_of_a_block_that_died(get, uses):
    """Keys hold the exponents of a tile: they must not outlive it."""
    block, key = np.zeros(3), Key()
    for _ in range(uses):
        get(block, key, Tile)
    alive = weakref.ref(key)
    del block, key
    gc.collect()
    assert alive() is None


def test_a_new_block_in_the_place_of_a_dead_one_is_another(cache, get):
    for name in range(200):
        block = np.full(4, name)
        assert get(block, "left", partial(Tile, name)).name == name
        del block
    assert cache.counters.reused == 0


def test_the_least_recently_used_goes_first(cache):
    get = partial(cache.get, key=0, encode=Tile, budget=25)
    blocks = [np.zeros(1) for _ in range(3)]
    for i in (0, 1, 0, 2):
        get(blocks[i])
    assert cache.nbytes == 20
    get(blocks[0])
    assert cache.counters.encoded == 3
    get(blocks[1])
    assert cache.counters.encoded == 4


def test_what_does_not_fit_is_made_each_time(cache):
    block = np.zeros(1)
    tiles = [cache.get(block, 0, Tile, budget=9) for _ in range(3)]
    assert tiles[0] is not tiles[1]
    assert (len(cache), cache.nbytes, cache.counters.encoded) == (0, 0, 3)


def test_a_smaller_budget_counts_from_the_next_tile_on(cache, get):
    blocks = [np.zeros(1) for _ in range(5)]
    for block in blocks[:4]:
        get(block, 0, Tile)
    cache.get(blocks[4], 0, Tile, budget=15)
    assert cache.nbytes == 10


def test_clear_forgets_everything(cache, get):
    block = np.zeros(1)
    get(block, 0, Tile)
    cache.clear()
    assert (len(cache), cache.nbytes, cache.counters.encoded) == (0, 0, 0)
    get(block, 0, Tile)
    del block
    gc.collect()
    assert (len(cache), cache.nbytes) == (0, 0)


def test_a_failed_encoding_leaves_no_trace(cache, get):
    block = np.zeros(1)

    def fail():
        raise ValueError("no tile")

    with pytest.raises(ValueError, match="no tile"):
        get(block, 0, fail)
    assert get(block, 0, Tile) == Tile()
    assert cache.counters.encoded == 1


def test_threads_that_want_a_tile_at_once_share_it(cache, get):
    block, gate = np.zeros(1), threading.Barrier(4)

    def slow():
        # Long enough for the others to ask meanwhile.
        threading.Event().wait(0.05)
        return Tile()

    def ask(_):
        gate.wait()
        return get(block, 0, slow)

    with ThreadPoolExecutor(4) as pool:
        tiles = list(pool.map(ask, range(4)))
    assert all(tile is tiles[0] for tile in tiles)
    assert (cache.counters.encoded, cache.counters.reused) == (1, 3)
