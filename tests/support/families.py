"""Random matrices of many kinds, of those that are hard to multiply accurately."""

import numpy as np

from tests.support.strategies import DTYPES, random_matrix

Pair = tuple[np.ndarray, np.ndarray]


def _powers(rng, limit, count):
    return np.ldexp(1.0, rng.integers(-limit, limit + 1, count))


def scaled_along_k(a, b, rng, w):
    d = _powers(rng, w, a.shape[1])
    return a * d, b / d[:, np.newaxis]


def scaled_rows(a, b, rng, w):
    return a * _powers(rng, w // 2, len(a))[:, np.newaxis], b * _powers(
        rng, w // 2, b.shape[1]
    )


def mixed_units(a, b, rng, w):
    units = 10.0 ** rng.choice([-9, -3, 0, 3] if w > 100 else [-3, 0, 1], a.shape[1])
    return a * units, b * 10.0 ** rng.uniform(-3, 3, len(b))[:, np.newaxis]


def sparse(a, b, rng, w):
    share = rng.choice([0.02, 0.1, 0.5])
    return a * (rng.random(a.shape) < share), b * (rng.random(b.shape) < share)


def banded(a, b, rng, w):
    width = rng.integers(1, 6)

    def near(x):
        distance = np.subtract.outer(*(np.arange(size) for size in x.shape))
        return x * (abs(distance) <= width)

    return near(a), near(b)


def graded(a, b, rng, w):
    def grade(x):
        steps = np.add.outer(*(np.arange(size) for size in x.shape))
        return x * 2.0 ** -(w * steps / (8 * max(1, steps.max())))

    return grade(a), grade(b)


def rank_one(a, b, rng, w):
    noise = 10.0 ** -rng.integers(2, 14 if w > 100 else 5)

    def outer(x):
        return np.outer(*(rng.standard_normal(size) for size in x.shape)) + noise * x

    return outer(a), outer(b)


def blocks(a, b, rng, w):
    a, b, half = a.copy(), b.copy(), a.shape[1] // 2
    a[: len(a) // 2, :half] *= 1e-4 if w < 100 else 1e-9
    a[len(a) // 2 :, half:] *= 1e-3
    b[half:, : b.shape[1] // 2] *= 1e-3
    return a, b


def cancelling(a, b, rng, w):
    a, b, half = a.copy(), b.copy(), a.shape[1] // 2
    a[:, half : 2 * half], b[half : 2 * half] = a[:, :half], -b[:half] * (1 + 1e-6)
    return a, b


KINDS = (
    *(scaled_along_k, scaled_rows, mixed_units, sparse, banded, graded, rank_one),
    *(blocks, cancelling),
)
PHIS = (0.0, 0.5, 1.0, 2.0, 4.0, 6.0)


def hard_pairs(count, most, seed=0):
    """Yield A (m, k) and B (k, n), each with a name; m and n are at most `most`.

    k is up to 4096, and mostly below 300. Every fourth pair is of the other three
    dtypes. Products neither over- nor underflow.
    """
    rng = np.random.default_rng(seed)
    for case in range(count):
        dtype = DTYPES[case // 4 % 3] if case % 4 == 3 else "complex128"
        single = np.finfo(dtype).bits == 32
        m, n = rng.integers(1, most + 1, 2)
        k = int(2 ** rng.uniform(0, 12 if case % 10 == 0 else 8.2))
        kind = case % (len(KINDS) + 3)
        # All that is left is the spread of the entries.
        alone = kind >= len(KINDS)
        phi = rng.choice(PHIS[:4] if single else PHIS) if alone else rng.choice([0, 1])
        a, b = (
            random_matrix(*x, "complex128", phi, [seed, case, *x])
            for x in ((m, k), (k, n))
        )
        if not alone:
            a, b = KINDS[kind](a, b, rng, 25 if single else 200)
        name = f"{case} {'spread' if alone else KINDS[kind].__name__} {phi:g} {dtype}"
        parts = (x if np.dtype(dtype).kind == "c" else x.real for x in (a, b))
        a, b = (np.ascontiguousarray(x.astype(dtype)) for x in parts)
        yield name, (a, b)
