"""The embedded default: Numba around the int8 GEMM of ONNX Runtime."""
