"""Tests of what every engine promises, stage by stage.

`tests/check/kernels` runs them on the engines of NumPy, `tests/run/cuda_on_host` on the
text of the CUDA kernels: a case written here is written for all. The fixture `stages`
is what has a stage by its name: an engine, or calls of single kernels.
"""
