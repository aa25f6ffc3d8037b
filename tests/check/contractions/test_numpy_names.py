"""twom_dist.numpy, and the package as a backend of autoray."""

import importlib
import pickle
from functools import partial

import array_api_strict as strict
import autoray
import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from twom_dist import numpy as xp
from twom_dist.errors import PlanError

linalg = xp.linalg
RNG = np.random.default_rng(1)


def integers(*shape):
    """Draw small integers: their products have no rounding."""
    return RNG.integers(-9, 9, shape) + 1j * RNG.integers(-9, 9, shape)


A, B = td.testing.random_matrix(6, 8), td.testing.random_matrix(8, 5)
SHAPES = [((), (3,)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((3,), (2, 3, 4))]
SHAPES += [((2, 3), (3, 4)), ((2, 5, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((0, 3), (3, 4))]


def test_products_are_ours():
    assert xp.tensordot is td.tensordot
    assert [linalg.matmul, linalg.tensordot] == [td.matmul, td.tensordot]
    with dask.config.set({"twom-dist.blas-below": 0}):
        for found in (xp.dot(A, B), xp.matmul(A, B), xp.einsum("ij,jk", A, B)):
            assert same_bits(found, td.matmul(A, B, method="2m"))
        expected = td.matmul(A.conj()[:, None], A[:, :, None], method="2m")[:, 0, 0]
        assert same_bits(xp.vecdot(A, A), expected)


def expect(found, expected, kind):
    assert isinstance(found, kind)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert (np.asarray(found) == expected).all()


@cases(("a", "b"), SHAPES)
def test_dot_is_that_of_numpy(a, b):
    x, y = integers(*a), integers(*b)
    expected = np.dot(x, y)
    expect(xp.dot(x, y), expected, type(expected))
    expect(xp.dot(x.real, y.imag), np.dot(x.real, y.imag), type(expected.real))
    expect(xp.dot(da.from_array(x), da.from_array(y)), expected, da.Array)
    out = np.zeros(expected.shape, complex)
    assert xp.dot(x, y, out) is out
    assert (out == expected).all()
    for wrong in (np.zeros((*expected.shape, 1), complex), np.zeros(expected.shape)):
        if x.ndim:
            with raises(PlanError, "out"):
                xp.dot(x, y, out=wrong)


@cases("number", [-7, 300, True, 2.5, 1e300, 2j, 2**63, np.float32(2), [1, 2, 3]])
@cases("dtype", ("bool", "uint8", "float32", "complex64"))
def test_numbers_of_python_have_a_dtype_of_their_own_in_dot(number, dtype):
    x = np.arange(3).astype(dtype)
    expected = np.dot(x, number)
    expect(xp.dot(x, number), expected, type(expected))
    expect(xp.dot(da.from_array(x), number), expected, da.Array)


AXES = [((3,), (3,), -1), ((2, 3), (3,), -1), ((3, 2), (3, 1), 0)]
AXES += [((4, 1, 2), (1, 5, 2), 2), ((2, 0), (2, 0), 1)]


@cases(("a", "b", "axis"), AXES)
def test_vecdot_is_that_of_numpy(a, b, axis):
    x, y = integers(*a), integers(*b)
    for first, second in ((x, y), (x.real, y), (x.real.astype(int), y.real)):
        expected = np.vecdot(first, second, axis=axis)
        expect(xp.vecdot(first, second, axis=axis), expected, type(expected))
    expected = np.vecdot(x, y, axis=axis)
    found = xp.vecdot(da.from_array(x), da.from_array(y), axis=axis)
    expect(found, expected, da.Array)
    other = linalg.vecdot(strict.asarray(x), strict.asarray(y), axis=axis)
    assert (np.asarray(other) == expected).all()


@cases("library", [np, da, strict])
def test_other_functions_are_those_of_the_library_of_their_arrays(library):
    kind, x = type(library.asarray(A)), library.asarray(A)
    found = [
        *(xp.reshape(x, (3, 16)), xp.stack([x, x]), xp.concat((x, x)), xp.asarray(x)),
        *(xp.permute_dims(x, (1, 0)), xp.where(xp.isnan(x), x, x), linalg.svd(x)[1]),
    ]
    assert {type(y) for y in found} == {kind}
    assert type(xp.zeros((2, 3))) is type(xp.asarray([1, 2])) is np.ndarray


def test_names_are_those_of_numpy_and_of_the_array_api():
    both = ((xp, np, strict), (linalg, np.linalg, strict.linalg))
    for ours, numpys, standard in both:
        names = dir(ours)
        assert {*ours.__all__, *numpys.__all__} == {*names}
        assert all(hasattr(ours, name) for name in names)
        functions = {x for x in standard.__all__ if x.islower() and x[0] != "_"}
        assert {x for x in functions - {*names} if "strict" not in x} == set()
        for name in ("nothing", "_core", "__path__"):
            assert not hasattr(ours, name)
    assert importlib.import_module("twom_dist.numpy.linalg") is linalg
    for function in (xp.reshape, linalg.svd):
        assert pickle.loads(pickle.dumps(function)) is function


def test_autoray_finds_every_function():
    do = partial(autoray.do, like="twom_dist")
    assert do("reshape", A, (12, 4)).shape == (12, 4)
    assert do("zeros", (2, 3)).shape == (2, 3)
    assert isinstance(do("abs", da.from_array(A)), da.Array)
    # As autoray has it, which numpy.linalg.svd has not.
    assert do("linalg.svd", A)[2].shape == (6, 8)
    assert do("dot", A, B).shape == (6, 5)
    for name in linalg.__all__:
        found = autoray.get_lib_fn("twom_dist", f"linalg.{name}")
        assert found is getattr(linalg, name)
    for name in ("nothing", "linalg.nothing"):
        with pytest.raises(ImportError, match="nothing"):
            do(name, A)
