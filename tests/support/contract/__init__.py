"""Tests of what every engine promises, stage by stage, and of what routines compute.

`tests/check/kernels` runs them on the engines of NumPy, `tests/run/cuda_on_host` on the
text of the CUDA kernels, `tests/gpu` on a device: a case written here is written for
all. Each file of those folders takes all names of some modules here, and has a fixture
`engine`, which is what has a stage by its name; no two cases have one name.
"""
