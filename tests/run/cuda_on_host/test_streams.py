"""Threads with streams of their own: nothing that one still reads is given back."""

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cuda.deferred_device import deferred_engine
from tests.support.expect import same_bits
from tests.support.strategies import random_matrix
from twom_dist.moduli import residue_system
from twom_dist.problem.problem import of_headers
from twom_dist.tiles import tasks
from twom_dist.tiles.cache import encoded_tiles
from twom_dist.tiles.rows import Row

PATIENCE = 30  # seconds, for a thread that has failed


@pytest.fixture
def engine(host_kernels, request):
    """Give an engine on a device that defers, for `cuda` as well."""
    seed, capability = getattr(request, "param", (0, 90))
    return deferred_engine(host_kernels, capability, seed)


def tiles_of_a_panel(steps, cache_bytes):
    left, right = (
        [random_matrix(70, 40, "complex128", 1.0, 10 * side + i) for i in range(steps)]
        for side in (1, 2)
    )
    posed = of_headers(td.gemm.ask(left[0], right[0].T, num_moduli=3))
    spec = replace(posed.with_engine("cuda").spec, op_b="T", lazy=True)
    exponents, spec = np.full(70, 9, np.int32), replace(spec, cache_bytes=cache_bytes)
    return Row("left", left), Row("right", right), exponents, exponents, spec


def test_planes_that_the_cache_drops_stay_for_who_multiplies_them(cuda):
    """One thread launches a product; another drops its planes and encodes anew."""
    given = tiles_of_a_panel(1, 1 << 20)
    row, _, exponents, _, spec = given
    made, launched, dropped = (threading.Event() for _ in range(3))
    encoded_tiles.clear()

    def drop():
        with cuda.task():
            tasks.encode_tile(Row("left", row.tiles), 0, exponents, spec)
        made.set()
        launched.wait(PATIENCE)
        encoded_tiles.clear()
        cuda.encode(-row.tiles[0], exponents, spec.system)
        cuda.device.run_own()
        dropped.set()

    with ThreadPoolExecutor(1) as other:
        dropping = other.submit(drop)
        made.wait(PATIENCE)
        with cuda.task():
            # Finds the left planes, and then waits until it has made the right ones.
            found = tasks.multiply_panel(*given).values
            launched.set()
            dropped.wait(PATIENCE)
        dropping.result()
    with cuda.task():
        expected = tasks.multiply_panel(*given).values
    assert same_bits(np.asarray(found)[..., :70], np.asarray(expected)[..., :70])


@pytest.mark.parametrize("engine", [(1, 90), (2, 90)], indirect=True)
def test_planes_of_others_are_waited_for_and_so_is_a_task_that_fails(engine):
    """Another thread has launched what makes them, and has not waited."""
    x, exponents = random_matrix(70, 40), np.full(70, 9, np.int32)
    system, shared = residue_system("2m", 3), []
    made, read = threading.Event(), threading.Event()

    def encode():
        with engine.task():
            shared.append(engine.publish(engine.encode(x, exponents, system)))
            made.set()
            read.wait(PATIENCE)

    def multiply(error=None):
        with engine.task():
            planes = engine.retain(shared[0])
            found = engine.multiply(planes, planes, system)
            if error is not None:
                raise error
        return np.array(found)[..., :70]

    with ThreadPoolExecutor(1) as other:
        encoding = other.submit(encode)
        made.wait(PATIENCE)
        first = multiply()
        engine.device.launched.clear()
        with pytest.raises(KeyError):
            multiply(KeyError("of the task"))
        assert "synchronize" in engine.device.launched
        read.set()
        encoding.result()
    assert same_bits(first, multiply())


def test_a_task_keeps_no_more_planes_than_its_stream_reads(cuda):
    """A panel has many tiles: what has been waited for makes room for the next."""
    held, most, encode = [], [], cuda.encode

    def count(*args, **options):
        made = encode(*args, **options)
        held.append(weakref.ref(made.planes))
        most.append(sum(planes() is not None for planes in held))
        return made

    cuda.encode = count
    with cuda.task():
        tasks.multiply_panel(*tiles_of_a_panel(6, 1))
    # The pair that is multiplied: its memory comes back in the order of the stream.
    assert (len(most), max(most)) == (12, 2)


@pytest.mark.parametrize("engine", [(0, 80), (0, 100), (1, 90), (2, 90)], indirect=True)
def test_threads_of_dask_share_planes(cuda):
    A, B = (
        random_matrix(*shape, "complex128", 1.0, 3) for shape in ((90, 60), (60, 70))
    )
    a, b = da.from_array(A, chunks=30), da.from_array(B, chunks=30)
    small = {"twom-dist.cache-bytes": 20_000, "twom-dist.panel-bytes": 1}
    with dask.config.set(small):
        found = td.gemm(a, b, num_moduli=3).compute(scheduler="threads", num_workers=3)
    assert same_bits(found, td.gemm(A, B, num_moduli=3, engine="cpu"))
