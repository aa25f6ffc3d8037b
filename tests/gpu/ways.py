"""Ways of multiplying that a device is made to take."""

from dataclasses import replace

import pytest

from twom_dist.kernels.cuda.tuning import Tuning

WAYS = ("fused", "cublas", "float16")


def chosen_way(way: str, own: Tuning) -> Tuning:
    """Change what a device would do by itself."""
    if way == "fused":
        if not own.fused:
            # It is written in instructions that only Hopper has.
            pytest.skip("products.cu is for compute capability 9.0")
        return own
    element = "float16" if way == "float16" else "int8"
    return replace(own, fused=False, element=element)
