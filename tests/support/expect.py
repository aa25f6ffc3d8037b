"""Expectations that several test files share."""

import re
from contextlib import contextmanager

import pytest


@contextmanager
def raises(kind, code):
    """Expect an error of this kind with this code, whatever its words."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)


def first_number(remedy):
    """Read the number that a remedy advises, such as MiB or the side of a tile."""
    found = re.search(r"\d+", remedy)
    assert found is not None, remedy
    return int(found[0])
