"""Factors: numbers that caches find again."""

import numpy as np

from twom_dist.problem.scalars import as_key, as_number


def test_a_nan_is_the_same_object_each_time():
    given = float("nan"), -float("nan"), np.float32("nan"), complex("-nan-0j")
    assert len({id(as_number(x, "alpha")) for x in given}) == 1
    both = complex("nan+2j"), complex("2+nanj"), np.complex64("nan+nanj")
    assert len({id(as_key(x, "alpha")) for x in both}) == 1
    assert as_key(2, "alpha") == 2
    assert as_key(None, "beta") is None
