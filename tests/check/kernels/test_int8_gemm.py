"""The int8 product: exact on this machine, or replaced by one that is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twom_dist
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import KernelError
from twom_dist.kernels.cpu import int8_gemm


def as_int64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(float) @ b.astype(float)).astype(np.int64)


def saturating(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Add pairs of products in saturating int16, as x86 without VNNI does."""
    out[...] = 0
    for t in range(0, a.shape[-1], 2):
        pair = as_int64(a[..., t : t + 2], b[..., t : t + 2, :])
        out += np.clip(pair, -(2**15), 2**15 - 1).astype(np.int32)


@cases("name", int8_gemm.KERNELS)
@cases("shape", [(1, 1, 1), (1, 67, 3), (37, 1, 1031), (3, 5, 2**16), (65, 33, 513)])
def test_int8_products_are_exact(name, shape):
    gemm = getattr(int8_gemm, f"multiply_{name}")
    if name == "u8s8" and not int8_gemm.is_exact(gemm):
        # x86 without VNNI: the engine finds out by the same check.
        assert int8_gemm.select_kernel() != name
        return
    m, n, k = shape
    rng = np.random.default_rng(k)
    a = rng.integers(0, 256, (m, k), np.uint8)
    b = rng.integers(-128, 128, (k, n), np.int8)
    for left, right in ((a, b), (np.full_like(a, 255), np.full_like(b, -128))):
        out = np.full((m, n), 12345, np.int32)
        gemm(left, right, out)
        assert (out == as_int64(left, right)).all()


def test_the_check_finds_a_product_that_saturates():
    assert int8_gemm.is_exact(int8_gemm.multiply_u8u8)
    assert int8_gemm.is_exact(int8_gemm.multiply_float32)
    assert not int8_gemm.is_exact(saturating)


@pytest.mark.parametrize("broken", range(4))
def test_kernels_fall_back_in_order(monkeypatch, broken):
    choose = int8_gemm.select_kernel.__wrapped__
    kernels: dict[str, Any] = dict.fromkeys(int8_gemm.KERNELS, as_exact)
    kernels |= dict.fromkeys(int8_gemm.KERNELS[:broken], saturating)
    monkeypatch.setattr(int8_gemm, "_KERNELS", kernels)
    if broken < len(int8_gemm.KERNELS):
        assert choose() == ("u8s8", "u8u8", "float32")[broken]
        return
    with raises(KernelError, "no-exact-product"):
        choose()


def as_exact(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    out[...] = as_int64(a, b)


@pytest.mark.parametrize("name", ["u8s8", "u8u8"])
def test_models_are_what_onnx_builds(name):
    onnx = pytest.importorskip("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    right = types.INT8 if name == "u8s8" else types.UINT8
    pairs = (("A", types.UINT8), ("B", right), ("C", types.INT32))
    a, b, c = (helper.make_tensor_value_info(n, t, None) for n, t in pairs)
    node = helper.make_node("MatMulInteger", ["A", "B"], ["C"])
    model = helper.make_model(
        helper.make_graph([node], "matmul", [a, b], [c]),
        producer_name="twom_dist",
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 10)],
    )
    folder = Path(twom_dist.__file__).parent / "kernels" / "cpu"
    file = folder / f"matmul_{name}.onnx"
    assert file.read_bytes() == model.SerializeToString()
