"""Continue an output that another run has left unfinished."""

import os
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from twom_dist.errors import StoreError
from twom_dist.store._checks import native_dtype, store_errors
from twom_dist.store._draft import Draft
from twom_dist.store._formats import FORMAT_TABLE
from twom_dist.store._location import Location, parse_location
from twom_dist.store._publish import make_temporary_name
from twom_dist.store._target import check_folder, check_target
from twom_dist.store.journal import Journal
from twom_dist.store.writer import MatrixWriter


def reopen_matrix(
    path: str | os.PathLike[str],
    journal: Journal,
    shape: tuple[int, int],
    dtype: DTypeLike,
    tile: tuple[int, int],
    *,
    overwrite: bool = False,
) -> MatrixWriter:
    """Continue to write a matrix that an earlier run has left unfinished.

    Parameters
    ----------
    path : str or os.PathLike
        As it was given to `create_matrix`, like the next three.
    journal : Journal
        Its temporary gets a new name, so that no process of that run writes to it.
    shape : tuple of int
    dtype : dtype_like
    tile : tuple of int
    overwrite : bool
        As in `create_matrix`.

    Returns
    -------
    MatrixWriter
        Takes the tiles that are missing, then `commit`.

    Raises
    ------
    StoreError
        As `create_matrix`, and where the temporary is not what it was created as.
    """
    location = parse_location(path)
    target = os.path.realpath(location.path)
    check_folder(target)
    if location.member is None and not overwrite and os.path.lexists(target):
        raise StoreError(
            f"{target!r} exists beside its unfinished successor; continue that with "
            "resume=True, overwrite=True: what exists stays until it is whole."
        )
    check_target(location, target, overwrite)
    _check_temporary(location, journal.temporary, shape, np.dtype(dtype))
    temporary = make_temporary_name(target)
    journal.move(temporary)
    draft = Draft(temporary, location.member, shape, np.dtype(dtype), tile)
    return MatrixWriter(target, location.format, overwrite, draft)


def _check_temporary(
    location: Location, temporary: str, shape: tuple[int, int], dtype: np.dtype[Any]
) -> None:
    # An archive has no members before it is finished.
    kind = "npy" if location.format == "npz" else location.format
    with store_errors(temporary, "read"):
        found = FORMAT_TABLE[kind].describe(Location(temporary, None, kind))
    begun = found.location.member or ""
    named = location.member or FORMAT_TABLE[kind].DEFAULT_MEMBER
    if location.format != "npz" and begun != named:
        name = f"as member {begun!r}" if begun else "without a member"
        raise StoreError(
            f"{str(location)!r} was begun {name}; name it so, or start anew with "
            "overwrite=True alone."
        )
    if (found.shape, native_dtype(found.dtype)) != (shape, native_dtype(dtype)):
        raise StoreError(
            f"{temporary!r} is a {found.shape} matrix of {found.dtype} and was begun "
            f"as one of {shape} and {dtype}; remove it and its journal."
        )
