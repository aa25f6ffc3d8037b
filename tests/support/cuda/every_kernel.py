"""Products that launch every kernel of the CUDA engine, as small as they may be."""

import dask
import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.integers import random_integers
from tests.support.strategies import random_matrix
from twom_dist.kernels.cuda.products import SQUARES
from twom_dist.kernels.cuda.sources import FAMILIES, of_samples, signatures
from twom_dist.kernels.cuda.tuning import tuning_for
from twom_dist.moduli import residue_system, samples_system


def kernels_of(capability):
    """Name the kernels that a device of a capability launches."""
    own, samples = tuning_for(capability), ("wgmma", "mma")
    ours = own.products if own.fuses((1, 1, 1)) else ()
    others = {"requantise", "combine"} if ours else {"spread", "join"}
    others |= _products(samples) | _products(samples, samples=True)
    others -= _products(ours) | _products(own.of_samples, samples=True)
    if ours or own.element == "int8":
        others |= {"widen"}
    every = {name for family in FAMILIES for name in signatures(family)}
    return (every | _products(ours)) - others


def _products(kinds, samples=False):
    """Name what multiplies planes, or samples."""
    given, byte = [s.module for name in kinds for s in SQUARES[name]], np.dtype(np.int8)
    if samples:
        given = [of_samples(x, samples_system(True, 1), byte, byte) for x in given]
    return {x.family for x in given}


def _multiply_by_seven(A, B, **engine):
    with dask.config.set({"twom-dist.winograd-levels": 1}):
        return td.gemm(A, B, num_moduli=2, **engine)


def assert_every_kernel_is_right(engine, send=np.asarray, fetch=np.asarray):
    """Compare with the CPU: of arrays that are sent to the device and fetched again."""
    for routine, arrays, options in _calls_of_every_kernel():
        found = fetch(routine(*map(send, arrays), **options))
        expected = routine(*arrays, engine="cpu", **options)
        np.testing.assert_array_equal(found, expected)
    A = np.arange(99.0).reshape(9, 11)
    a = da.from_array(send(A), chunks=5)
    found = td.gemm(a, a, op_b="T").compute(scheduler="sync")
    np.testing.assert_array_equal(fetch(found), A @ A.T)
    # Residues are added as those of parts along k.
    system = residue_system("2m", 2)
    encoded = engine.encode(send(np.eye(5)), send(np.zeros(5, np.int32)), system)
    found = engine.multiply(encoded, encoded, system)
    engine.add_residues(found, found, system)


def _calls_of_every_kernel():
    """Yield routine, arrays and options; ragged, and two squares of 256 a side."""
    A, B, C = (
        random_matrix(*shape, "complex128", 1.0, seed)
        for seed, shape in enumerate([(70, 37), (37, 51), (70, 51)])
    )
    A[3, 5], C[1, 1] = np.nan, np.inf
    yield td.gemm, [A, B, C], {"alpha": 2, "beta": 0.5j, "num_moduli": 3}
    yield td.gemm, [A, B], {}
    # Octaves of long rows are multiplied.
    R = random_matrix(2, 8300, "float64", 5.0, 5)
    yield td.gemm, [R, R[::-1].T], {}
    yield _multiply_by_seven, [np.resize(A, (65, 129)), np.resize(B, (129, 65))], {}
    yield td.gemm, [np.eye(37), np.eye(37)], {}
    yield td.gemm, [np.stack([np.eye(37)] * 2), np.eye(37)], {}
    rng = np.random.default_rng(0)
    E = rng.random((2, 40, 40)) + 1j * rng.random((2, 40, 40))
    yield td.gemm, [E, E], {}
    D = np.ldexp(1.0, np.arange(37) % 20)
    yield td.gemm, [A * D, B / D[:, None]], {"num_moduli": 3, "equilibrate": True}
    for dtype in ("complex64", "float64"):
        X = random_matrix(262, 20, dtype, 1.0, 4)
        yield td.herk, [X], {"num_moduli": 2, "uplo": "upper"}
        yield td.syr2k, [X[:40], X[40:80]], {"num_moduli": 2}
    samples = random_integers((70, 30), "int8", pairs=True)
    yield td.integers.herk, [samples[:40]], {"pairs": True}
    yield td.integers.gemm, [samples, samples], {"pairs": True, "op_b": "C"}
