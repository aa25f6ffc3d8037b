"""Finished tiles and shifts by the kernels on the host."""

import pytest

from tests.support.contract.finished_tiles import *  # noqa: F403
from tests.support.cuda.operands import LAYOUTS
from tests.support.shifts import (
    assert_large_entries_stay_finite,
    assert_shifts_are_exact,
)
from tests.support.strategies import DTYPES


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts_are_exact_in_every_stage(engine, dtype):
    assert_shifts_are_exact(engine, dtype, LAYOUTS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts_leave_large_entries_finite(cuda, dtype):
    assert_large_entries_stay_finite(dtype)
