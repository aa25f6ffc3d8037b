"""Blocks that are open at the same time, left by an error, or closed elsewhere."""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.strategies import random_matrix

OPTIONS = {"method": "2m", "num_moduli": 16}
A, B = random_matrix(9, 7), random_matrix(7, 5, seed=1)
a, b = da.from_array(A, chunks=4), da.from_array(B, chunks=3)


def multiplies():
    """Multiply, and tell by the names of layers whether functions of ours have."""
    return any(layer.startswith("twom-") for layer in (a @ b).dask.layers)


@pytest.fixture
def other():
    """Another thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_the_inner_block_counts_and_errors_leave_nothing_behind():
    with td.use(**OPTIONS) as outer:
        with td.use(method="4m") as inner:
            found = a @ b
        _ = a @ b
    assert (outer.ours, inner.ours) == (1, 1)
    assert same_bits(found.compute(), td.matmul(A, B, method="4m"))
    with pytest.raises(KeyError), td.use(), td.use():
        raise KeyError
    with td.use(), pytest.raises(ValueError, match="scalars"):
        _ = a @ da.ones(())
    assert not multiplies()


def test_threads_and_tasks_have_the_blocks_of_their_context(other):
    with td.use(**OPTIONS) as used:
        copy = contextvars.copy_context()
        assert not other.submit(multiplies).result()
        assert other.submit(copy.run, multiplies).result()
    assert used.ours == 1

    async def wait(turn):
        await turn.wait()
        return multiplies()

    async def enter(turn):
        with td.use(**OPTIONS):
            turn.set()
            await asyncio.sleep(0)
            return multiplies()

    async def main():
        turn = asyncio.Event()
        return await asyncio.gather(wait(turn), enter(turn))

    assert asyncio.run(main()) == [False, True]


def test_a_copy_of_a_context_does_not_outlive_its_block():
    with td.use(**OPTIONS) as outer:
        with td.use(**OPTIONS) as inner:
            copy = contextvars.copy_context()
            assert copy.run(multiplies)
        assert copy.run(multiplies)

    def multiply_while_another_is_open():
        with td.use(**OPTIONS):
            return copy.run(multiplies)

    assert not contextvars.Context().run(multiply_while_another_is_open)
    assert (inner.ours, outer.ours) == (1, 1)


def test_what_others_replace_meanwhile_stays():
    original = da.matmul
    try:
        with td.use(**OPTIONS):
            ours = da.matmul
            da.matmul = theirs = lambda x, y: ours(x, y)
            assert any(x.startswith("twom-") for x in da.matmul(a, b).dask.layers)
        assert da.matmul is theirs
        assert not any(x.startswith("twom-") for x in da.matmul(a, b).dask.layers)
    finally:
        da.matmul = original


def test_of_two_blocks_the_outer_one_may_end_first_or_elsewhere():
    outer, inner = td.use(**OPTIONS), td.use(**OPTIONS)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert multiplies()
    inner.__exit__(None, None, None)
    assert not multiplies()

    def generate():
        with td.use(**OPTIONS) as used:
            yield used

    generator = generate()
    contextvars.copy_context().run(next, generator)
    generator.close()
    assert not multiplies()
