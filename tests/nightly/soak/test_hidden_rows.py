"""Rows of another kind among up to 1500, of every kind: never worse than NumPy."""

import pytest

from tests.support.hidden import assert_never_worse, hidden_pairs


@pytest.mark.parametrize("seed", range(10))
def test_rows_that_hide_in_large_matrices(seed):
    for given in hidden_pairs(range(129, 1500), 700, 1, seed):
        assert_never_worse(*given)
