"""Blocks that are open at the same time, left by an error, or closed elsewhere."""

import asyncio
import contextvars
import threading

import dask.array as da
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.expect import raises
from tests.support.strategies import random_matrix
from twom_dist.errors import ArgumentError

OPTIONS = {"method": "2m", "num_moduli": 16}
A, B = random_matrix(9, 7), random_matrix(7, 5, seed=1)
a, b = da.from_array(A, chunks=4), da.from_array(B, chunks=3)


def is_ours(x):
    """Tell by the names of a graph's layers, which functions of ours have made."""
    return any(layer.startswith("twom-") for layer in x.dask.layers)


def test_the_inner_block_counts():
    with td.use(**OPTIONS) as outer:
        with td.use(method="4m") as inner:
            found = a @ b
        _ = a @ b
    assert (outer.ours, inner.ours) == (1, 1)
    assert same_bits(found.compute(), td.matmul(A, B, method="4m"))


def test_errors_leave_nothing_behind():
    with pytest.raises(KeyError), td.use(), td.use():
        raise KeyError
    assert not is_ours(a @ b)
    with td.use() as used, pytest.raises(ValueError, match="scalars"):
        _ = a @ da.ones(())
    with td.use(method="2m") as used:
        assert is_ours(a @ b)
    assert used.ours == 1


def test_a_function_is_a_block_unless_it_runs_later():
    @td.use(**OPTIONS)
    def multiply():
        return a @ b

    async def waits():
        return a @ b

    def yields():
        yield a @ b

    async def both():
        yield a @ b

    assert is_ours(multiply())
    assert not is_ours(a @ b)
    for function in (waits, yields, both):
        with raises(ArgumentError, "use"):
            td.use()(function)


def test_one_object_may_be_entered_again_and_inside_itself():
    block = td.use(**OPTIONS)
    with block as outer:
        with block as inner:
            assert is_ours(a @ b)
        assert is_ours(a @ b)
        thread = threading.Thread(target=block(lambda: a @ b))
        thread.start()
        thread.join(10)
        assert is_ours(a @ b)
    assert not is_ours(a @ b)
    with block as again:
        assert is_ours(a @ b)
    assert not is_ours(a @ b)
    assert (outer.ours, inner.ours, again.ours) == (2, 1, 1)


def test_threads_that_share_an_object_end_their_own_blocks():
    block, entered, left = td.use(**OPTIONS), threading.Event(), threading.Event()

    def work():
        with block:
            entered.set()
            left.wait(10)

    thread = threading.Thread(target=work)
    with block:
        thread.start()
        entered.wait(10)
    assert not is_ours(a @ b)
    with block:
        left.set()
        thread.join(10)
        assert is_ours(a @ b)


def test_a_thread_has_the_block_of_the_context_that_it_runs_in():
    found = []
    with td.use(**OPTIONS) as used:
        context = contextvars.copy_context()
        for run in (lambda work: work(), context.run):
            thread = threading.Thread(target=run, args=(lambda: found.append(a @ b),))
            thread.start()
            thread.join(10)
    assert used.ours == 1
    assert [*map(is_ours, found)] == [False, True]


def test_what_others_replace_meanwhile_stays():
    original = da.matmul
    try:
        with td.use(**OPTIONS):
            ours = da.matmul
            da.matmul = theirs = lambda x, y: ours(x, y)
            assert is_ours(da.matmul(a, b))
        assert da.matmul is theirs
        assert not is_ours(da.matmul(a, b))
    finally:
        da.matmul = original


def test_threads_and_tasks_have_their_own():
    others, entered, left = [], threading.Event(), threading.Event()

    def work():
        others.append(is_ours(a @ b))
        with td.use(**OPTIONS) as used:
            entered.set()
            left.wait(10)
            others.extend([is_ours(a @ b), used.ours])

    thread = threading.Thread(target=work)
    with td.use(**OPTIONS) as used:
        thread.start()
        entered.wait(10)
        assert is_ours(a @ b)
    assert not is_ours(a @ b)
    left.set()
    thread.join(10)
    assert (others, used.ours) == ([False, True, 1], 1)

    async def wait(turn):
        await turn.wait()
        return is_ours(a @ b)

    async def enter(turn):
        with td.use(**OPTIONS):
            turn.set()
            await asyncio.sleep(0)
            return is_ours(a @ b)

    async def main():
        turn = asyncio.Event()
        return await asyncio.gather(wait(turn), enter(turn))

    assert asyncio.run(main()) == [False, True]


def test_a_copy_of_a_context_does_not_outlive_its_block():
    with td.use(**OPTIONS) as outer:
        with td.use(**OPTIONS) as inner:
            copy = contextvars.copy_context()
            assert copy.run(lambda: is_ours(a @ b))
        assert copy.run(lambda: is_ours(a @ b))
    with_another = contextvars.Context()
    assert with_another.run(lambda: multiply_elsewhere(copy)) is False
    assert (inner.ours, outer.ours) == (1, 1)


def multiply_elsewhere(copy):
    """Multiply in a closed block while another is open."""
    with td.use(**OPTIONS):
        return copy.run(lambda: is_ours(a @ b))


def test_of_two_blocks_the_outer_one_may_end_first():
    outer, inner = td.use(**OPTIONS), td.use(**OPTIONS)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert is_ours(a @ b)
    inner.__exit__(None, None, None)
    assert not is_ours(a @ b)


def test_a_generator_may_end_in_another_context():
    def generate():
        with td.use(**OPTIONS) as used:
            yield used

    generator = generate()
    contextvars.copy_context().run(next, generator)
    generator.close()
    assert not is_ours(a @ b)
