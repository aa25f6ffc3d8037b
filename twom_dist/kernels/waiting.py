"""The wait for arrays that are on the host: none."""

from collections.abc import Callable, Sequence

from ..typing import Array


def fetch(
    arrays: Sequence[Array], meanwhile: Callable[[], object] | None = None
) -> list[Array]:
    """Return arrays that are on the host."""
    return list(arrays)
