"""Integers for tests of exact products, and their products as Python integers."""

import numpy as np

RANGES = {
    name: (0, 1) if name == "bool" else (np.iinfo(name).min, np.iinfo(name).max)
    for name in ("bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64")
}


def random_integers(shape, dtype, pairs=False, seed=0):
    """Draw from the whole range of a dtype, its ends among them."""
    low, high = RANGES[dtype]
    rng = np.random.default_rng([seed, *shape])
    shape = (*shape, 2) if pairs else shape
    kind = "uint64" if dtype == "uint64" else "int64"
    found = rng.integers(low, high, shape, dtype=kind, endpoint=True).astype(dtype)
    if found.size:
        found.flat[0], found.flat[-1] = low, high
    return found


def full(shape, value, dtype, pairs=False):
    return np.full((*shape, 2) if pairs else shape, value, dtype)


def multiply(a, b, pairs=False):
    x, y = (np.asarray(t).astype(object) for t in (a, b))
    if not pairs:
        return x @ y
    (ar, ai), (br, bi) = ((t[..., 0], t[..., 1]) for t in (x, y))
    return np.stack((ar @ br - ai @ bi, ar @ bi + ai @ br), axis=-1)


def conjugate(a):
    x = np.asarray(a).astype(object).swapaxes(-2, -3)
    return np.stack((x[..., 0], -x[..., 1]), axis=-1)


def as_parts(c):
    """Turn a product of pairs, or of integers, into Python integers, part by part."""
    c = np.ascontiguousarray(c)
    if c.dtype.kind == "c":
        c = c.view(np.float64).reshape(*c.shape, 2)
    assert (c == np.rint(c)).all()
    return c.astype(np.int64).astype(object)
