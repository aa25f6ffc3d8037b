"""Cases of a test: many cheap ones as one, and those that wait for the night."""

import inspect
from functools import wraps

import pytest

NIGHTLY = pytest.mark.nightly


def cases(names, values):
    """Call a test with each value in turn, as parametrize does in a test for each.

    For tests that leave nothing behind and take milliseconds: pytest's own share of
    one is as long.
    """
    single = isinstance(names, str)
    chosen = (names,) if isinstance(names, str) else names
    rows = [dict(zip(chosen, (x,) if single else x, strict=True)) for x in values]

    def decorate(test):
        @wraps(test)
        def run(*args, **fixtures):
            for row in rows:
                try:
                    test(*args, **fixtures, **row)
                except BaseException as error:
                    error.add_note(f"case: {row}")
                    raise

        given = inspect.signature(test)
        left = [x for x in given.parameters.values() if x.name not in chosen]
        # pytest looks at it for fixtures.
        run.__signature__ = given.replace(parameters=left)
        del run.__wrapped__
        return run

    return decorate


def sample(names, values, kept):
    """Parametrize a test by `values`, of which `kept` alone are not nightly's.

    For tests whose cases take long and differ little.
    """
    single, values, kept = isinstance(names, str), list(values), list(kept)
    assert all(x in values for x in kept), f"{names}: kept is not among the values"
    rows = [
        pytest.param(*((x,) if single else x), marks=() if x in kept else NIGHTLY)
        for x in values
    ]
    return pytest.mark.parametrize(names, rows)
