"""Width of the vectors that LLVM makes of the loops of a function."""

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic
def take_widest(typing_context: Any) -> Any:
    """Have the loops of this function take vectors of 512 bits where there are any.

    For Intel's CPUs LLVM prefers half of that, since their clocks would fall. Our
    products take the widest in any case.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        attributes: set[str] = builder.function.attributes
        # llvmlite knows those without a value.
        set.add(attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), generate
