"""Print a digest of products of every kind, to be compared with another machine's.

Of native products there is none: their last bits are the library's. Given a number of
seconds, no product begins later than that.
"""

import sys
from hashlib import sha256
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.pipeline import run_stages
from tests.support.stored import save
from twom_dist.kernels import get_engine
from twom_dist.moduli import residue_system
from twom_dist.store import open_matrix

M, N, K = 37, 29, 70
DRAWN = 80
REAL = ("float64", "float32")


def make(shape, dtype="complex128", spread=0, seed=1):
    """Rows and columns whose magnitudes differ by up to so many bits, either way.

    Every machine makes the same: exponentials of NumPy's differ in their last bits.
    """
    rng = np.random.default_rng([seed, *shape])
    x = td.testing.random_matrix(*shape, phi=0, dtype=dtype, seed=seed)
    for axis in (0, 1) if spread else ():
        bits = rng.integers(-spread, spread, x.shape, endpoint=True)
        line = np.ldexp(1.0, bits[:, :1] if axis == 0 else bits[:1])
        x *= line.astype(x.real.dtype)
    return x


def products():
    """Make pairs of a name and a function that multiplies, the usual ones first."""
    a, b, c = make((M, K)), make((K, N), seed=2), make((M, N), seed=3)
    yield "gemm", lambda: td.gemm(a, b)
    yield "herk", lambda: td.herk(a)
    yield "gemm ops", lambda: td.gemm(b, a, c.T, op_a="T", op_b="C", alpha=2j, beta=3)
    yield "spread", lambda: td.gemm(make((M, K), spread=12), make((K, N), spread=12))
    yield from integers()
    for dtype in REAL:
        x, y = make((M, K), dtype), make((K, N), dtype)
        yield f"gemm {dtype}", lambda x=x, y=y: td.gemm(x, y)
        yield f"syrk {dtype}", lambda x=x: td.syrk(x)
    single = make((M, K), "complex64")
    yield "gemm complex64", lambda: td.gemm(single, single, op_b="C")
    for routine in ("syrk", "her2k", "syr2k"):
        given = (a,) * (1 + routine.endswith("2k"))
        yield routine, lambda r=routine, given=given: getattr(td, r)(*given)
    yield "diagonal", lambda: td.gemm(a, b, diag=np.arange(K) - 20.0)
    rows = np.array([make((M, K), spread=x) for x in (0, 3, 9)])
    yield "stack", lambda: td.herk(rows)
    lazy = da.from_array(a, chunks=(15, 33))
    yield "dask", lambda: td.gemm(lazy, b).compute(scheduler="sync")
    yield "uneven dask", lambda: td.herk(lazy).compute(scheduler="sync")
    yield from files(a, b)
    odd = a.copy()
    odd[3, 4], odd[5, 6], odd[7], odd[8] = np.nan, np.inf, 0, 5e-324
    yield "not finite", lambda: td.gemm(odd, b)
    for method in ("3m", "hybrid"):
        given = {"method": method, "num_moduli": 9}
        yield method, lambda given=given: td.gemm(a, b, **given)
    yield "normwise", lambda: td.gemm(a, b, accuracy="normwise")
    yield "twofold", lambda: np.array(td.twofold.gemm(a, b))
    yield from stages()
    for seed in range(DRAWN):
        yield f"drawn {seed}", lambda seed=seed: draw(np.random.default_rng(seed))


def stages():
    """Make each stage of a product by some residue systems: planes, residues, sums."""
    for kind, count in (("2m", 16), ("hybrid", 21), ("real", 15)):
        dtype = "float64" if kind == "real" else "complex128"
        x, y = make((M, K), dtype, 9), make((N, K), dtype, 9, seed=2)
        engine = get_engine("cpu")
        found = run_stages(engine, x, y, residue_system(kind, count))
        for name, value in found.items():
            yield f"{kind}: {name}", lambda value=value: np.asarray(value)


def draw(rng):
    """Multiply matrices of a shape, dtype, range and operation that are drawn."""
    m, n, k = rng.integers(1, 90, 3).tolist()
    dtype, (op_a, op_b) = (
        rng.choice(["c16", "c16", "f8", "c8"]),
        rng.choice([*"NTC"], 2),
    )
    shapes = (m, k) if op_a == "N" else (k, m), (k, n) if op_b == "N" else (n, k)
    given = zip(shapes, rng.integers(0, 20, 2).tolist(), (1, 2), strict=True)
    a, b = (make(shape, dtype, *more) for shape, *more in given)
    return td.gemm(a, b, op_a=op_a, op_b=op_b, alpha=int(rng.integers(1, 4)))


def integers():
    rng = np.random.default_rng(1)
    samples = rng.integers(-128, 128, (19, 300, 2), dtype="int8")
    yield "samples", lambda: td.integers.herk(samples, pairs=True)
    stack = rng.integers(-8, 8, (2, 19, 40, 2), dtype="int8")
    yield "samples in a stack", lambda: td.integers.herk(stack, pairs=True)
    x = rng.integers(-(2**20), 2**20, (M, K))
    yield "integers", lambda: td.integers.gemm(x, x.T)
    yield "long integers", lambda: td.integers.matmul(x << 14, x.T)


def files(a, b):
    for suffix in (".zarr", ".npy", ".h5"):

        def multiply(suffix=suffix):
            with TemporaryDirectory() as folder:
                paths = [Path(folder, f"{x}{suffix}") for x in "abc"]
                for path, x in zip(paths, (a, b), strict=False):
                    save(path, x)
                td.multiply_files(*paths, chunks=16)
                return np.asarray(open_matrix(paths[2])[:, :])

        yield f"files {suffix}", multiply


def main():
    """Print a line as soon as it is known; the doctor's report, last, to stderr."""
    ends = monotonic() + float(next(iter(sys.argv[1:]), inf))
    for name, multiply in products():
        if monotonic() > ends:
            break
        found = np.ascontiguousarray(multiply())
        digest = sha256(f"{found.dtype} {found.shape}".encode() + found.tobytes())
        print(f"{digest.hexdigest()[:16]} {name}", flush=True)
    report = td.doctor()
    print(report, file=sys.stderr)
    sys.exit(not report.ok)


if __name__ == "__main__":
    main()
