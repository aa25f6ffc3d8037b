"""Errors on their way from a task to the client: type, code and words survive."""

import pytest
from distributed.core import clean_exception, error_message

from twom_dist.errors import StoreError, portable_errors
from twom_dist.store._errors import store_errors


class UnpicklableError(Exception):
    """As an error of a library that holds a lock or an open file."""

    def __init__(self) -> None:
        super().__init__("no room in the chunk cache")
        self.held = (x for x in ())


class HugeError(Exception):
    """As an error whose text is a whole file."""

    def __init__(self) -> None:
        super().__init__("no room in the chunk cache" + 10**7 * "x")


def fail(cause, hidden=False):
    """Raise an error of ours because of another one, as a task does."""
    with portable_errors():
        try:
            raise cause()
        except Exception as error:
            told = StoreError("'C' cannot be written", "Free some space", "disk-full")
            raise told from (None if hidden else error)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("cause", [UnpicklableError, HugeError])
def test_what_dask_sends_is_the_error(cause, hidden):
    with pytest.raises(StoreError) as caught:
        fail(cause, hidden)
    sent = error_message(caught.value)["exception"].data
    assert len(sent) < 20_000
    found = clean_exception(sent)[1]
    assert type(found) is StoreError
    assert (found.problem, found.remedy, found.code) == (
        *("'C' cannot be written", "Free some space", "disk-full"),
    )
    notes = "".join(getattr(found, "__notes__", []))
    assert ("no room in the chunk cache" in notes) != hidden


def test_a_damaged_file_fills_no_message():
    with pytest.raises(StoreError) as told, store_errors("A.h5", "read"):
        raise HugeError
    assert len(str(told.value)) < 1000
