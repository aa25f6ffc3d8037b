"""Matrices, shapes and memory layouts that every part of the suite draws from."""

import numpy as np
from hypothesis import strategies as st

from twom_dist import testing

# The engines that need no GPU.
ENGINE_NAMES = ("reference", "cpu")
DTYPES = ("float32", "float64", "complex64", "complex128")
ROUTINES = ("gemm", "herk", "syrk", "her2k", "syr2k")
METHODS = ("2m", "2m", "3m", "4m", "hybrid")
# (m, n, k): one, prime, ragged, tall, wide, long.
SHAPES = ((1, 1, 1), (3, 5, 7), (2, 3, 13), (17, 2, 3), (2, 17, 1), (2, 1, 131))


def random_matrix(rows, columns, dtype="complex128", phi=1.0, seed=0):
    """Draw entries (U - 1/2) exp(phi N(0,1)), part by part, of any dtype."""
    wide = "complex128" if np.dtype(dtype).kind == "c" else "float64"
    drawn = testing.random_matrix(rows, columns, phi=phi, dtype=wide, seed=seed)
    return drawn.astype(dtype)


def spread_pair(m, n, k, decades, dtype="complex128", seed=0):
    """A D and D^-1 B, D of up to so many decades either way."""
    d = 10.0 ** np.random.default_rng(seed).uniform(-decades, decades, k)
    a, b = (random_matrix(*x, dtype, 1.0, [seed, *x]) for x in ((m, k), (k, n)))
    return (a * d).astype(dtype), (b / d[:, np.newaxis]).astype(dtype)


def near_the_end(dtype):
    """Draw A and B whose columns and rows ask for shifts that would overflow.

    A has columns so small that shifts are centred far from 0; entries of B are near the
    largest number.
    """
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, (20, 40)), rng.uniform(1, 2, (40, 30))
    a[:, ::2] *= 2.0**-100
    b[1::2] *= 2.0**-20
    return a.astype(dtype), (b * 2.0 ** (np.finfo(dtype).maxexp - 7)).astype(dtype)


def spread_matrix(rows, k, dtype):
    """Entries of very different size; zeros, NaN, Inf and both ends of the format."""
    x, info = random_matrix(rows, k, dtype, 4.0, [rows, k]), np.finfo(dtype)
    if x.size > 20:
        x[2, 1], x[3, 4], x[4, 2], x[:, 0] = 0, np.nan, np.inf, 0
        x[1, 2], x[0, 3] = info.smallest_subnormal, info.max
    return x


def _strided(x):
    wide = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
    wide[::2, 1::3] = x
    return wide[::2, 1::3]


def _backwards(x):
    return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]


def turned(x):
    """Lay a matrix, or those of a stack, out along columns."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def _read_only(x):
    frozen = x.copy()
    frozen.flags.writeable = False
    return frozen


# The same values, lying differently in memory.
LAYOUTS = {
    "C": np.ascontiguousarray,
    "fortran": np.asfortranarray,
    "strided": _strided,
    "negative strides": _backwards,
    "read-only": _read_only,
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
}

seeds = st.integers(0, 2**32 - 1)
small = st.integers(1, 6)
phis = st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0])


@st.composite
def operands(draw, dtype="complex128"):
    m, n, k, seed = draw(small), draw(small), draw(st.integers(1, 9)), draw(seeds)
    phi = draw(phis)
    left = random_matrix(m, k, dtype, phi, [seed, 0])
    return left, random_matrix(k, n, dtype, phi, [seed, 1])


@st.composite
def gaussian_integers(draw, limit):
    """Draw A and B whose parts are integers within ±limit, as complex128."""
    m, n, k, seed = draw(small), draw(small), draw(st.integers(1, 9)), draw(seeds)
    rng = np.random.default_rng(seed)

    def whole(rows, columns):
        parts = rng.integers(-limit, limit, (2, rows, columns), endpoint=True)
        return parts[0] + 1j * parts[1]

    return whole(m, k), whole(k, n)


def pick(draw, *values):
    return draw(st.sampled_from(values))


def draw_options(draw, name, dtype, targets):
    if name == "gemm":
        options = {x: pick(draw, *"NTC") for x in ("op_a", "op_b")}
        options["equilibrate"] = pick(draw, None, None, True, False)
    else:
        options = {"op": pick(draw, "N", "T" if name[0] == "s" else "C")}
        options["uplo"] = pick(draw, "full", "lower", "upper")
    scalars = (1, 0.5 - 2j, 2j) if dtype[0] == "c" and name != "herk" else (-1, 0.5, 0)
    options |= {"method": pick(draw, *METHODS), "alpha": pick(draw, 1, *scalars)}
    return (
        options | pick(draw, *targets) | pick(draw, {}, {}, {"beta": 1}, {"beta": -1.5})
    )


def shapes_of(name, options, m, n, k):
    """List the shapes of A, of B where there is one, and of C where it is added."""
    op_a, op_b = (options.get(x, options.get("op")) for x in ("op_a", "op_b"))
    shapes = [(m, k) if op_a == "N" else (k, m)]
    if name == "gemm":
        shapes.append((k, n) if op_b == "N" else (n, k))
    shapes += shapes * name.endswith("2k")
    return shapes + [(m, n)] * ("beta" in options)


def diagonal_for(name, dtype, k, seed=0):
    kind = np.dtype(dtype).char.lower() if name == "herk" else dtype
    return random_matrix(1, k, kind, 1.0, seed)[0]
