"""Expectations that several test files share."""

import re
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

from twom_dist.contractions import pair


def same_bits(x, y):
    x, y = np.asarray(x), np.asarray(y)
    return (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())


@contextmanager
def raises(kind, code):
    """Expect an error of this kind with this code, whatever its words."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)


@contextmanager
def routines():
    """List the routines that contractions call."""
    called, compute_call = [], pair.compute_call

    def compute(call):
        called.append(call.terms.routine.name)
        return compute_call(call)

    with mock.patch.object(pair, "compute_call", compute):
        yield called


def first_number(remedy):
    """Read the number that a remedy advises, such as MiB or the side of a tile."""
    found = re.search(r"\d+", remedy)
    assert found is not None, remedy
    return int(found[0])
