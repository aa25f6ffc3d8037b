"""Cases of a test: many cheap ones as one, and those that wait for the night."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

NIGHTLY = pytest.mark.nightly


def cases(
    names: str | tuple[str, ...], values: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with each value in turn, as parametrize does in a test for each.

    For tests that leave nothing behind and take milliseconds: pytest's own share of
    one is as long.
    """
    single = isinstance(names, str)
    chosen = (names,) if isinstance(names, str) else names
    rows = [dict(zip(chosen, (x,) if single else x, strict=True)) for x in values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            for row in rows:
                try:
                    test(*args, **fixtures, **row)
                except BaseException as error:
                    error.add_note(f"case: {row}")
                    raise

        given = inspect.signature(test)
        left = [x for x in given.parameters.values() if x.name not in chosen]
        # pytest looks at it for fixtures.
        run.__signature__ = given.replace(parameters=left)  # type: ignore[attr-defined]
        del run.__wrapped__  # type: ignore[attr-defined]
        return run

    return decorate


def sample(
    names: str | tuple[str, ...], values: Iterable[Any], kept: Iterable[Any]
) -> pytest.MarkDecorator:
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
