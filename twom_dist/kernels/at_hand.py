"""Stages of engines whose device is the host: nothing to wait for, or to choose."""

from collections.abc import Sequence

from ..typing import Array


def fetch(arrays: Sequence[Array]) -> list[Array]:
    """Return arrays that are on the host."""
    return list(arrays)


def variant() -> None:
    """Return nothing: there is one device."""
