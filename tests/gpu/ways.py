"""Ways of multiplying that a device is made to take."""

from dataclasses import replace

import pytest

from twom_dist.kernels.cuda.tuning import Tuning

WAYS = ("fused", "cublas", "float16")


def chosen_way(way: str, own: Tuning) -> Tuning:
    """Change what a device would do by itself.

    "float16" is what one of compute capability 10.3 does, integer sums included.
    """
    if way == "fused":
        if not own.fused:
            # It is written in instructions that only Hopper has.
            pytest.skip("products.cu is for compute capability 9.0")
        return own
    if way == "float16":
        return replace(own, fused=False, element="float16", integer_sums=True)
    return replace(own, fused=False, element="int8")
