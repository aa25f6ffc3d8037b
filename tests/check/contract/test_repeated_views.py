"""Views in which entries are repeated, such as windows that slide, times vectors."""

import tracemalloc

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import MemoryLimitError


def integers(*shape):
    """Draw small integers: their products have no rounding."""
    return np.random.default_rng(shape).integers(-9, 9, shape) * (1 - 2j)


@cases("axes", ["->ab", "->ba", "->"])
@cases("dtype", ["complex128", "uint8"])
def test_views_that_repeat_entries_are_not_copied_for_a_vector(axes, dtype):
    image, kernel = (integers(*x) for x in ((80, 90), (16, 16)))
    if dtype == "uint8":
        image, kernel = (abs(x.real).astype(dtype) for x in (image, kernel))
    windows = sliding_window_view(image, kernel.shape)
    same = np.broadcast_to(image[:65, :75, None, None], windows.shape)
    for view in (windows, same):
        expected = np.einsum(f"abij,ij{axes}", view, kernel)
        tracemalloc.start()
        found = td.einsum(f"abij,ij{axes}", view, kernel)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert (found == expected).all()
        assert most < view.size
        if dtype != "uint8":
            found = td.einsum(f"abij,ij{axes}", view, kernel, method="2m")
            assert (found == expected).all()


def test_a_view_that_is_too_large_to_be_copied_says_so():
    shape = 2**20, 2**20, 2**10, 2**6
    view = as_strided(np.zeros(2**22, "f4"), shape, (4,) * 4, writeable=False)
    with raises(MemoryLimitError, "memory"):
        td.einsum("abij,ij->ab", view, np.ones(shape[2:], "f4"), method="2m")
