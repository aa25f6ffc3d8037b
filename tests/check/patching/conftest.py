"""Here each test leaves dask as it has found it."""

from collections.abc import Iterator

import dask
import dask.array as da
import pytest
from dask.array import einsumfuncs, routines

NAMES = "matmul", "tensordot", "dot", "einsum", "__matmul__", "__rmatmul__"
OWNERS = da, routines, einsumfuncs, da.Array


def attributes():
    return [vars(owner).get(name) for owner in OWNERS for name in NAMES]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """See that all is as it was, whatever a test has done."""
    before = attributes()
    with dask.config.set(scheduler="sync"):
        yield
    assert attributes() == before
