"""Matrices in which few rows are of another kind, which no sample of rows shows."""

import numpy as np

import twom_dist as td
from twom_dist.moduli.accuracy import unit_roundoff


def _on(rng, count, where):
    """Entries near 1 where they are, and next to nothing elsewhere."""
    values = np.where(where, 1.0, 1e-18)
    return values * rng.uniform(0.9, 1.1, (count, where.shape[-1]))


def make_rows(kind, rng, count, k):
    """Make rows that live on some of k each, where they meet few others."""
    place, row = np.arange(k), np.arange(count)[:, None]
    match kind:
        case "contiguous":
            run = max(1, k // max(2, min(count, 8)))
            starts = row * run % (k - run + 1)
            return _on(rng, count, (place >= starts) & (place < starts + run))
        case "scattered":
            which = rng.integers(0, max(2, min(count, 5)), k)
            return _on(rng, count, which == row % which.max())
        case "saturated":  # sensors at their limit for some of the time
            on = rng.random((count, k)) < rng.uniform(0.05, 0.5, (count, 1))
            return np.where(on, 4095.0, 1e-9 * rng.standard_normal((count, k)))
        case "bursts":  # QPSK symbols in slots of time
            slots = max(2, min(8, k // 4))
            symbols = (1j ** rng.integers(0, 4, (count, k))) * np.exp(0.25j * np.pi)
            return symbols * _on(rng, count, place * slots // k == row % slots)
        case "gates":  # sigmoids that are open or closed, like neurons'
            return 1 / (1 + np.exp(-45 * rng.standard_normal((count, k))))
    turns = max(2, min(count, 6))  # channels that take turns
    return _on(rng, count, place % turns == row % turns)


KINDS = ("contiguous", "scattered", "saturated", "bursts", "gates", "switched")


def hide(kind, rows, k, count, dtype, seed):
    rng = np.random.default_rng([seed, rows, k, count])
    x = rng.standard_normal((rows, k)) + 1j * rng.standard_normal((rows, k))
    places = np.sort(rng.choice(rows, min(count, rows), replace=False))
    x[places] = make_rows(kind, rng, len(places), k) * 10.0 ** rng.integers(-3, 4)
    return (x if np.dtype(dtype).kind == "c" else abs(x)).astype(dtype), places


def hidden_pairs(sizes, most_k, seed):
    """Yield a name, A, B, and the rows and columns of another kind."""
    rng = np.random.default_rng(seed)
    for kind in KINDS:
        m, n = rng.integers(sizes.start, sizes.stop, 2)
        k = int(rng.integers(40, most_k))
        count = int(rng.choice([1, 2, 5, 40]))
        dtype = ("complex128", "float64")[int(rng.integers(2))]
        seeds = [int(t) for t in rng.integers(0, 2**31, 2)]
        a, rows = hide(kind, m, k, count, dtype, seeds[0])
        b, columns = hide(kind, n, k, count, dtype, seeds[1])
        name = f"{kind}, {count} of {m} and {n}, k {k}, {dtype}"
        yield name, a, b.T, rows, columns


def largest_errors(a, b, *products):
    """Largest ``|dC|_ij / (|A| |B|)_ij`` of each, in units of u, by 297 bits.

    Rounded to double: of single precision products exact, of others up to half a unit.
    """
    wide = "c16" if a.dtype.kind == "c" else "f8"
    x, y = a.astype(wide), b.astype(wide)
    method = {"method": "hybrid"} if wide == "c16" else {}
    exact = td.gemm(x, y, num_moduli=40, equilibrate=True, **method)
    sizes = abs(x) @ abs(y)
    # What is left are sums of nothing, and what underflows.
    some = sizes > 1e-280
    errors = [abs(c[some] - exact[some]) / sizes[some] for c in products]
    return [float(e.max(initial=0)) / unit_roundoff(a.dtype) for e in errors]
