"""Arrays of other libraries: taken by DLPack, and given back in their own kind."""

from types import SimpleNamespace

import array_api_strict as strict
import dask.array as da
import numpy as np
import pytest
import zarr

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.modules import with_modules
from twom_dist.errors import ArgumentError, EngineUnavailableError, PlanError

A, B = td.testing.random_matrix(5, 7), td.testing.random_matrix(7, 4)
AB = td.gemm(A, B)


class Tensor:
    device = 1

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


class OldTensor(Tensor):
    """One of DLPack before 1.0, which could not say what may be written to."""

    def __dlpack__(self, *, stream=None):
        return self.values.__dlpack__()

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.fixture(params=["array_api_strict", "torch", "jax"])
def library(request):
    if request.param == "array_api_strict":
        return strict.asarray
    module = pytest.importorskip(request.param, reason="too large for the tests")
    if request.param == "torch":
        return module.from_numpy
    module.config.update("jax_enable_x64", True)
    return module.numpy.asarray


def test_results_are_of_the_library_of_the_inputs(library):
    a, b, c = library(A), library(B), library(np.eye(5, dtype=complex))
    stack, own = np.stack([A, 2 * A]), np.eye(5, dtype=complex)
    for result, expected in [
        *((x, AB) for x in (td.gemm(a, B.tolist()), td.gemm(A, b), td.gemm(a, b))),
        (td.zherk(a, c, beta=1), td.zherk(A, own, beta=1)),
        (td.syr2k(a, A), td.syr2k(A, A)),
        *zip(td.twofold.gemm(a, B), td.twofold.gemm(A, B), strict=True),
        (td.gemm(library(stack), B), td.gemm(stack, B)),
        (td.einsum("ij,jk->ik", A, b), A @ B),
        (td.transpose(a), np.ascontiguousarray(A.T)),
    ]:
        assert type(result) is type(a)
        assert same_bits(np.from_dlpack(result), expected)
    assert np.asarray(np.from_dlpack(td.einsum("ij,ij->", a, a))).shape == ()
    assert td.explain(td.gemm, a, B).num_moduli == td.explain(td.gemm, A, B).num_moduli


def test_a_result_is_written_where_it_is_wanted():
    for a, b in [(A, B), (strict.asarray(A), B), (Tensor(A), Tensor(B))]:
        for out in [strict.zeros((5, 4), dtype=strict.complex128), np.zeros_like(AB)]:
            assert td.gemm(a, b, out=out) is out
            assert np.from_dlpack(out).tobytes() == AB.tobytes()
    old = OldTensor(np.zeros_like(AB))
    assert td.gemm(OldTensor(A), B, out=old) is old
    assert old.values.tobytes() == AB.tobytes()
    old.values.flags.writeable = False
    with raises(PlanError, "out"):
        td.gemm(A, B, out=old.values)


def test_results_are_numpys_where_none_can_be_made_and_lazy_beside_others(tmp_path):
    found = td.gemm(Tensor(A), B)
    assert type(found) is np.ndarray
    assert same_bits(found, AB)
    stored = zarr.create_array(tmp_path / "A.zarr", data=A, chunks=(3, 3))
    for found in (td.gemm(strict.asarray(A), da.from_array(B)), td.matmul(stored, B)):
        assert isinstance(found, da.Array)
        assert np.allclose(found, A @ B)


class Single(Tensor):
    def __array_namespace__(self):
        return SimpleNamespace(from_dlpack=lambda x: x.astype("complex64"))


class Broken(Tensor):
    def __dlpack__(self, **options):
        raise ZeroDivisionError


UNSEEN = [
    (Single, "narrowed", {}),
    *((Tensor, "device-kind", {"device": x}) for x in (4, 8, 10, 99)),
    (Tensor, "gradient", {"requires_grad": True}),
    (Tensor, "lazy-view", {"is_conj": lambda: True}),
    (Tensor, "lazy-view", {"is_neg": lambda: True}),
    (Broken, "not-a-matrix", {}),
]


@cases(("kind", "code", "noted"), UNSEEN)
def test_what_numpy_would_not_see_is_refused(kind, code, noted):
    tensor = kind(A)
    vars(tensor).update(noted)
    with raises(ArgumentError, code):
        td.gemm(tensor, B)


def test_cuda_takes_cupy():
    tensor = Tensor(A)
    tensor.device = 2
    with with_modules(cupy=None), raises(EngineUnavailableError, "no-cupy"):
        td.gemm(tensor, B)
