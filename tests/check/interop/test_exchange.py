"""Arrays of other libraries: taken by DLPack, and given back in their own kind."""

import sys
from types import SimpleNamespace

import array_api_strict as strict
import dask.array as da
import numpy as np
import pytest
import zarr

import twom_dist as td
from tests.support.expect import raises
from twom_dist.errors import ArgumentError, EngineUnavailableError, PlanError
from twom_dist.interop.dlpack import adopt

A, B = td.testing.random_matrix(5, 7), td.testing.random_matrix(7, 4)
AB = td.gemm(A, B)


class Tensor:
    """An array of a library that exports and takes nothing."""

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
    """Make arrays of a library, and tell its kind."""
    if request.param == "array_api_strict":
        return strict.asarray
    module = pytest.importorskip(request.param, reason="too large for the tests")
    if request.param == "torch":
        return module.from_numpy
    module.config.update("jax_enable_x64", True)
    return module.numpy.asarray


@pytest.mark.parametrize("mixed", ["A", "B", "both"])
def test_results_are_of_the_library_of_the_inputs(library, mixed):
    left = A if mixed == "B" else library(A)
    right = B.tolist() if mixed == "A" else library(B)
    found = td.gemm(left, right)
    assert type(found) is type(library(A))
    assert np.from_dlpack(found).tobytes() == AB.tobytes()


def test_every_routine_takes_them(library):
    a, c = library(A), library(np.eye(5, dtype=complex))
    kind = type(a)
    for result, expected in [
        (td.zherk(a, c, beta=1), td.zherk(A, np.eye(5, dtype=complex), beta=1)),
        (td.syr2k(a, A), td.syr2k(A, A)),
        *zip(td.twofold.gemm(a, B), td.twofold.gemm(A, B), strict=True),
        (td.Product((5, 7), (7, 4))(a, B), AB),
    ]:
        assert type(result) is kind
        assert np.from_dlpack(result).tobytes() == expected.tobytes()
    assert td.plan(td.gemm, a, B).shape == (5, 4, 7)
    assert td.explain(td.gemm, a, B).num_moduli == td.explain(td.gemm, A, B).num_moduli


def test_stacks_are_taken_as_they_are(library):
    stack = np.stack([A, 2 * A])
    assert np.from_dlpack(td.gemm(library(stack), B)).shape == (2, 5, 4)


def test_nothing_is_copied():
    (view, other, same), _ = adopt(A=strict.asarray(A), B=B, C=B)
    assert type(view) is np.ndarray
    assert other is same is B
    given = strict.asarray(A, copy=True)
    (view,), give_back = adopt(A=given)
    given[0, 0] = 77  # not through the view, which NumPy 2.1 takes read-only
    assert view[0, 0] == 77
    assert type(give_back(np.float64(3))) is type(given)


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


def test_without_an_import_the_result_is_numpys():
    found = td.gemm(Tensor(A), B)
    assert type(found) is np.ndarray
    assert found.tobytes() == AB.tobytes()


def test_a_library_that_would_cut_the_result_does_not_get_it():
    class Single(Tensor):
        def __array_namespace__(self):
            return SimpleNamespace(from_dlpack=lambda x: x.astype("complex64"))

    with raises(ArgumentError, "narrowed"):
        td.gemm(Single(A), B)


def test_beside_a_dask_array_the_result_is_lazy():
    found = td.gemm(strict.asarray(A), da.from_array(B, chunks=2))
    assert isinstance(found, da.Array)
    assert found.compute().tobytes() == AB.tobytes()


@pytest.mark.parametrize("device", [4, 8, 10, 99])
def test_devices_without_an_engine_are_refused(device):
    tensor = Tensor(A)
    tensor.device = device
    with raises(ArgumentError, "device-kind"):
        td.gemm(tensor, B)


def test_cuda_takes_cupy(monkeypatch):
    tensor = Tensor(A)
    tensor.device = 2
    monkeypatch.setitem(sys.modules, "cupy", None)
    with raises(EngineUnavailableError, "no-cupy"):
        td.gemm(tensor, B)


@pytest.mark.parametrize(
    ("code", "name", "value"),
    [
        ("gradient", "requires_grad", True),
        ("lazy-view", "is_conj", lambda: True),
        ("lazy-view", "is_neg", lambda: True),
        ("not-a-matrix", "__dlpack__", lambda **_: 1 / 0),
    ],
)
def test_what_numpy_would_not_see_is_refused(code, name, value):
    kind = type("Noted", (Tensor,), {})
    tensor = kind(A)
    setattr(kind if name == "__dlpack__" else tensor, name, value)
    with raises(ArgumentError, code):
        td.gemm(tensor, B)


def test_tensors_of_torch_say_what_they_are():
    torch = pytest.importorskip("torch", reason="too large for the tests")
    a = torch.from_numpy(A)
    for code, tensor in [
        ("gradient", a.clone().requires_grad_()),
        ("lazy-view", a.mH.mT),
        ("lazy-view", a.conj().imag),
        ("not-a-matrix", a.to("meta")),
        ("not-a-matrix", a.to_sparse()),
        ("not-a-matrix", a.real.bfloat16()),
    ]:
        with raises(ArgumentError, code):
            td.gemm(tensor, B)
    out = torch.zeros(5, 4, dtype=torch.complex128)
    assert td.gemm(a.mT, B, op_a="T", out=out) is out
    assert out.numpy().tobytes() == AB.tobytes()


def test_contractions_give_back_the_library_of_their_operands(library):
    a, b = library(A), library(B)
    for found in (
        td.matmul(a, b),
        td.tensordot(a, b, axes=1),
        td.einsum("ij,jk->ik", a, b),
        td.einsum("ij,jk->ik", A, b),
    ):
        assert type(found) is type(a)
        assert (np.from_dlpack(found) == A @ B).all()
    turned = td.transpose(a)
    assert type(turned) is type(a)
    assert (np.from_dlpack(turned) == A.T).all()
    total = td.einsum("ij,ij->", a, a)
    assert np.asarray(np.from_dlpack(total)).shape == ()


def test_contractions_read_arrays_on_disk_lazily(tmp_path):
    stored = zarr.create_array(tmp_path / "A.zarr", data=A, chunks=(3, 3))
    found = td.matmul(stored, B)
    assert isinstance(found, da.Array)
    assert np.allclose(found, A @ B)
