"""The embedded default: kernels that Numba compiles for the machine."""
