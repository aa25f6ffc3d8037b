"""Random matrices of many kinds, of those that are hard to multiply accurately."""

import numpy as np

from tests.support.strategies import DTYPES, random_matrix

KINDS = (
    *("scaled along k", "scaled rows", "mixed units", "sparse", "banded", "graded"),
    *("rank one", "blocks", "cancelling"),
)
PHIS = (0.0, 0.5, 1.0, 2.0, 4.0, 6.0)


def _powers(rng, limit, count):
    return np.ldexp(1.0, rng.integers(-limit, limit + 1, count))


def _places(x, combine):
    return combine.outer(*(np.arange(size) for size in x.shape))


def make_hard(kind, a, b, rng, w):
    """Make a pair hard to multiply; `w`: octaves that magnitudes may be apart."""
    half, wide = a.shape[1] // 2, w > 100
    match kind:
        case "scaled along k":
            d = _powers(rng, w, a.shape[1])
            return a * d, b / d[:, np.newaxis]
        case "scaled rows":
            rows = _powers(rng, w // 2, len(a))[:, np.newaxis]
            return a * rows, b * _powers(rng, w // 2, b.shape[1])
        case "mixed units":
            units = 10.0 ** rng.choice([-9, -3, 0, 3] if wide else [-3, 0, 1], len(b))
            return a * units, b * 10.0 ** rng.uniform(-3, 3, len(b))[:, np.newaxis]
        case "sparse":
            share = rng.choice([0.02, 0.1, 0.5])
            return tuple(x * (rng.random(x.shape) < share) for x in (a, b))
        case "banded":
            width = rng.integers(1, 6)
            return tuple(x * (abs(_places(x, np.subtract)) <= width) for x in (a, b))
        case "graded":
            steps = [_places(x, np.add) for x in (a, b)]
            falls = (w * t / (8 * max(1, t.max())) for t in steps)
            return tuple(x * 2.0**-t for x, t in zip((a, b), falls, strict=True))
        case "rank one":
            noise = 10.0 ** -rng.integers(2, 14 if wide else 5)
            drawn = [map(rng.standard_normal, x.shape) for x in (a, b)]
            ones = (np.outer(*x) for x in drawn)
            return tuple(x + noise * y for x, y in zip(ones, (a, b), strict=True))
    a, b = a.copy(), b.copy()
    if kind == "blocks":
        a[: len(a) // 2, :half] *= 1e-9 if wide else 1e-4
        a[len(a) // 2 :, half:] *= 1e-3
        b[half:, : b.shape[1] // 2] *= 1e-3
    else:
        a[:, half : 2 * half], b[half : 2 * half] = a[:, :half], -b[:half] * (1 + 1e-6)
    return a, b


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
        # All that is left of the last is the spread of the entries.
        kind = (*KINDS, *["spread"] * 3)[case % (len(KINDS) + 3)]
        spreads = (PHIS[:4] if single else PHIS) if kind == "spread" else [0, 1]
        phi = rng.choice(spreads)
        a, b = (
            random_matrix(*x, "complex128", phi, [seed, case, *x])
            for x in ((m, k), (k, n))
        )
        if kind != "spread":
            a, b = make_hard(kind, a, b, rng, 25 if single else 200)
        parts = (x if np.dtype(dtype).kind == "c" else x.real for x in (a, b))
        a, b = (np.ascontiguousarray(x.astype(dtype)) for x in parts)
        yield f"{case} {kind} {phi:g} {dtype}", (a, b)
