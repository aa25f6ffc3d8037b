"""Expectations that several test files share."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from twom_dist.errors import TwomError


@contextmanager
def raises(
    kind: type[TwomError], code: str
) -> Iterator[pytest.ExceptionInfo[TwomError]]:
    """Expect an error of this kind with this code, whatever its words."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)
