"""Samples of 8 bits modulo 2^32: each stage against the reference."""

import numpy as np

from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.integers import random_integers
from tests.support.pipeline import REFERENCE
from tests.support.strategies import random_matrix
from twom_dist.moduli import samples_system

LAYOUTS = {
    "along": lambda x: x,
    "across": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "cut": lambda x: np.repeat(x, 2, axis=-2)[..., ::2, :],
    "apart": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}


def draw(engine, shape, dtype, pairs, seed):
    """Draw samples as engines take them."""
    return as_taken(engine, random_integers(shape, dtype, pairs, seed), pairs)


def as_taken(engine, x, pairs):
    """Return samples, or pairs of them, as engines take them: on a device as words."""
    if engine.name == "cuda" and pairs:
        return x.view(f"{x.dtype.kind}2")[..., 0]
    kind = x.dtype
    return x.view([("re", kind), ("im", kind)])[..., 0] if pairs else x


@cases("layout", [*LAYOUTS])
@cases(("left", "right"), [("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")])
@cases("shape", [(1, 1, 1), (17, 40, 130), (50, 9, 77), (18, 5, 23)])
@cases(("pairs", "stack"), [(True, ()), (True, (2,)), (False, ()), (False, (3, 1))])
@cases("bound", [1, 1 << 40])
def test_stages_are_those_of_the_reference(
    engine, bound, pairs, stack, shape, left, right, layout
):
    (m, n, k), system = shape, samples_system(pairs, bound)
    found = []
    for own in (engine, REFERENCE):
        sums = None
        for step in range(2):
            sides = (m, left, 1 + step, False), (n, right, 3 + step, pairs)
            x, y = (
                own.encode(
                    LAYOUTS[layout](draw(own, (*stack, rows, k), dtype, pairs, seed)),
                    np.zeros((*stack, rows), np.int32),
                    system,
                    conjugate=conjugated,
                )
                for rows, dtype, seed, conjugated in sides
            )
            assert x.shape == (*stack, m, k)
            sums = own.multiply(x, y, system, sums)
        twice = own.add_residues(sums, sums, system)
        found.append([sums[..., :n], twice[..., :n]])
    for x, y in zip(*found, strict=True):
        assert np.array_equal(x, y)


@cases("bound", [1, 1 << 40])
@cases("dtype", ["complex128", "complex64"])
@cases(("alpha", "beta"), [(1, 0), (0.25, 0), (2 - 3j, 0), (1, 1), (-1.5, 1 + 2j)])
def test_decoding_is_that_of_the_reference(engine, alpha, beta, dtype, bound):
    system, (m, n) = samples_system(True, bound), (19, 21)
    rng = np.random.default_rng(1)
    largest = 2**30 if bound == 1 else 2**52
    sums = rng.integers(-largest, largest, (2, m, n)).astype(system.residue_dtype)
    sums[:, 0, 0], sums[:, 0, 1] = 0, (largest, 1 - largest)
    zeros = np.zeros(m, np.int32), np.zeros(n, np.int32)
    given = {"alpha": alpha, "beta": beta, "c": random_matrix(m, n, dtype, 1.0, 2)}
    own, expected = (
        e.decode(sums, *zeros, system, np.dtype(dtype), **given)
        for e in (engine, REFERENCE)
    )
    assert same_bits(own, expected)
