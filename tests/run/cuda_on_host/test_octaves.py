"""The contract of octaves, for the text of the CUDA kernels."""

from tests.support.contract.octaves import *  # noqa: F403
