"""Samples of 8 bits modulo 2^32: each stage against the reference."""

from contextlib import nullcontext

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.cpu_ways import take
from tests.support.expect import same_bits
from tests.support.integers import as_parts, conjugate, multiply, random_integers
from tests.support.strategies import random_matrix
from twom_dist.kernels import get_engine
from twom_dist.moduli import samples_system

REFERENCE = get_engine("reference")
LAYOUTS = {
    "along": lambda x: x,
    "across": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "cut": lambda x: np.repeat(x, 2, axis=-2)[..., ::2, :],
    "apart": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}


def draw(shape, dtype, pairs, seed):
    x = random_integers(shape, dtype, pairs, seed)
    return x.view([("re", dtype), ("im", dtype)])[..., 0] if pairs else x


@pytest.fixture(params=[False, True], ids=["whole", "blocks"])
def blocks(request):
    """Blocks of rows, and of k, as they are; and as small as they can be."""
    with (
        take("microkernel") if request.param else nullcontext(),
        dask.config.set({"twom-dist.threads": 2}),
    ):
        yield


@pytest.mark.usefixtures("blocks")
@cases("layout", [*LAYOUTS])
@cases(("left", "right"), [("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")])
@cases("shape", [(1, 1, 1), (17, 40, 130), (50, 9, 77)])
@cases(("pairs", "stack"), [(True, ()), (True, (2,)), (False, ()), (False, (3, 1))])
def test_stages_are_those_of_the_reference(
    engine, pairs, stack, shape, left, right, layout
):
    (m, n, k), system = shape, samples_system(pairs)
    found = []
    for own in (engine, REFERENCE):
        planes, sums = [], None
        for step in range(2):
            sides = (m, left, 1 + step, False), (n, right, 3 + step, pairs)
            x, y = (
                own.encode(
                    LAYOUTS[layout](draw((*stack, rows, k), dtype, pairs, seed)),
                    np.zeros((*stack, rows), np.int32),
                    system,
                    conjugate=conjugated,
                )
                for rows, dtype, seed, conjugated in sides
            )
            assert x.shape == (*stack, m, k)
            planes += [x.residues(), y.residues()]
            sums = own.multiply(x, y, system, sums)
        twice = own.add_residues(sums, sums, system)
        found.append([*planes, sums[..., :n], twice[..., :n]])
    for x, y in zip(*found, strict=True):
        assert np.array_equal(x, y)


@cases("dtype", ["complex128", "complex64"])
@cases(("alpha", "beta"), [(1, 0), (0.25, 0), (2 - 3j, 0), (1, 1), (-1.5, 1 + 2j)])
def test_decoding_is_that_of_the_reference(engine, alpha, beta, dtype):
    system, (m, n) = samples_system(True), (19, 21)
    rng = np.random.default_rng(1)
    sums = rng.integers(-(2**30), 2**30, (4, m, n)).astype(np.int32)
    sums[:, 0, 0], sums[:, 0, 1] = 0, (2**30, 2**30 - 1, -(2**30), -(2**30) + 1)
    zeros = np.zeros(m, np.int32), np.zeros(n, np.int32)
    given = {"alpha": alpha, "beta": beta, "c": random_matrix(m, n, dtype, 1.0, 2)}
    own, expected = (
        e.decode(sums, *zeros, system, np.dtype(dtype), **given)
        for e in (engine, REFERENCE)
    )
    assert same_bits(own, expected)


@cases("uplo", ["full", "lower", "upper"])
@cases("n", [1, 16, 37, 200])
def test_triangles_and_samples_of_time_first(uplo, n):
    x = random_integers((n, 70), "int8", True)
    expected = multiply(x, conjugate(x), True)
    turned = np.ascontiguousarray(x.swapaxes(0, 1))
    for found in (
        td.integers.herk(x, pairs=True, uplo=uplo),
        td.integers.herk(turned, op="C", pairs=True, uplo=uplo).conj(),
    ):
        cut = {"full": np.ones_like, "lower": np.tril, "upper": np.triu}[uplo]
        kept = as_parts(found) == expected * cut(np.ones((n, n), int))[..., None]
        assert kept.all()


@cases("pairs", [False, True])
def test_entries_decide_where_the_dtype_does_not(pairs):
    """Of long sums int32 holds those of small samples; others take more moduli."""
    k = 1 << 17
    for largest, moduli in ((1, 1), (127, 1 if not pairs else 5), (-128, 5)):
        x = np.full((2, k, 2) if pairs else (2, k), largest, np.int8)
        product = td.integers.herk if pairs else td.integers.syrk
        assert td.explain(product, x, pairs=pairs).num_moduli == moduli
        found = as_parts(product(x, pairs=pairs))
        assert found.flat[0] == (1 + pairs) * k * largest**2


def test_lazy_samples_go_by_their_dtype():
    import dask.array as da

    x = random_integers((6, 300), "int8", True)
    expected = td.integers.herk(x, pairs=True)
    lazy = da.from_array(x, chunks=(2, 70, 2))
    found = td.integers.herk(lazy, pairs=True)
    assert same_bits(found.compute(), expected)
    assert td.plan(td.integers.herk, lazy, pairs=True).num_moduli == 1
    long = da.zeros((2, 1 << 16, 2), dtype=np.int8)
    assert td.plan(td.integers.herk, long, pairs=True).num_moduli == 5
