"""Matrices that are written one rectangle at a time and appear when they are whole."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from twom_dist.errors import StoreError
from twom_dist.store._checks import (
    check_dtype,
    check_shape,
    native_dtype,
    store_errors,
)
from twom_dist.store._draft import Draft
from twom_dist.store._formats import FORMAT_TABLE
from twom_dist.store._location import Location, parse_location
from twom_dist.store._publish import (
    make_temporary_name,
    packed_name,
    publish,
    remove,
)
from twom_dist.store._region import Region, check_region, region_shape
from twom_dist.store._target import check_folder, check_space, check_target
from twom_dist.store.journal import Journal


@dataclass(frozen=True)
class MatrixWriter(Draft):
    """A matrix on its way to a file.

    Made by `create_matrix`. Everything is written to a hidden temporary beside the
    target, so the target holds the whole result or what it held before, whenever the
    run ends. It keeps no open file: a pickled copy writes to the same temporary.
    As a context manager it commits at the end, and discards after an exception.

    Attributes
    ----------
    path : str
        Absolute path of the target.
    format : {'zarr', 'npy', 'npz', 'hdf5'}
        Format of the target.
    overwrite : bool
        Whether `commit` may replace what is there.

    Notes
    -----
    `concurrent` is True for ``.npy`` and for zarr, where it holds for regions of whole
    tiles, the last ones of a row or column included: two processes that write parts
    of one chunk lose one of them. It is False for HDF5 and ``.npz``.

    `commit` trusts its caller that every region has been written; what was not
    written is zero.
    """

    path: str
    format: str
    overwrite: bool

    @property
    def ndim(self) -> int:
        """The number of dimensions, always 2."""
        return 2

    @property
    def concurrent(self) -> bool:
        """Whether several processes may write at once."""
        return FORMAT_TABLE[self.format].CONCURRENT

    def region(self, i: int, j: int) -> Region:
        """Return rows and columns of tile (i, j); fewer ones for the last tiles."""
        (m, n), (mb, nb) = self.shape, self.tile
        return slice(i * mb, min(m, i * mb + mb)), slice(j * nb, min(n, j * nb + nb))

    def __setitem__(self, index: tuple[slice, slice], values: ArrayLike) -> None:
        """Write one region.

        Parameters
        ----------
        index : tuple of slice
            Rows and columns, of step 1.
        values : array_like
            Elements in the shape of the region, of a dtype that NumPy casts safely.

        Raises
        ------
        StoreError
            Shape or dtype do not fit, or the system refuses to write.
        """
        region = check_region(index, self.shape)
        given, shape = np.asarray(values), region_shape(region)
        fits = given.shape == shape and np.can_cast(given.dtype, self.dtype, "safe")
        if not fits:
            raise StoreError(
                f"a tile of shape {given.shape} and dtype {given.dtype} was given, and "
                f"{str(self.location)!r} takes {shape} and {self.dtype} there",
                "Give one of that shape, and convert it first",
                "tile-misfit",
            )
        if given.size == 0:
            return
        with store_errors(self.location, "written"):
            tile = np.ascontiguousarray(given, dtype=self.dtype)
            FORMAT_TABLE[self.format].write(self, region, tile)

    def sync(self, regions: Sequence[Region]) -> None:
        """Wait until these regions, of whole tiles, are on disk.

        Raises
        ------
        StoreError
            The system could not write them after all.
        """
        with store_errors(self.location, "written"):
            FORMAT_TABLE[self.format].sync(self, regions)

    def commit(self) -> None:
        """Move the finished matrix to its name.

        Raises
        ------
        StoreError
            The writer has been committed or discarded already, the target has come up
            meanwhile or may no longer be replaced, or the system refuses the move; the
            temporary then stays.
        """
        if not os.path.exists(self.temporary):
            raise StoreError(
                f"{str(self.location)!r} has been committed or discarded already",
                "Create a new writer for it",
                "writer-ended",
            )
        self._look_again()
        action = f"put in place from {self.temporary!r}, which is kept"
        with store_errors(self.location, action):
            finished = FORMAT_TABLE[self.format].finish(self)
            try:
                # Finishing may have copied the whole matrix.
                self._look_again()
                publish(finished, self.path)
            except BaseException:
                if finished != self.temporary:
                    remove(finished)
                raise
            remove(self.temporary)

    def _look_again(self) -> None:
        """Check what is in the place now: it may have become something else."""
        if not self.overwrite and os.path.lexists(self.path):
            raise StoreError(
                f"{self.path!r} has come up since it was to be written; the finished "
                f"matrix is kept as {self.temporary!r}",
                "Move one of the two",
                "output-came-up",
            )
        check_target(self.location, self.path, self.overwrite)

    def discard(self) -> None:
        """Remove the temporary; a second call, or one after `commit`, does nothing."""
        with store_errors(self.temporary, "removed"):
            remove(self.temporary)
            remove(packed_name(self.temporary))

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit, or discard after an exception."""
        if error is None:
            self.commit()
            return
        try:
            self.discard()
        except StoreError as left:
            # The first error is the one to report.
            error.add_note(str(left))

    @property
    def location(self) -> Location:
        """Path and member of the target."""
        return Location(self.path, self.member, self.format)


def create_matrix(
    path: str | os.PathLike[str],
    shape: Sequence[int],
    dtype: DTypeLike,
    tile: tuple[int, int],
    *,
    overwrite: bool = False,
    freed_bytes: int = 0,
) -> MatrixWriter:
    """Start to write a matrix, after checking everything that can be known first.

    Parameters
    ----------
    path : str or os.PathLike
        The file to make: ``.zarr``, ``.npy``, ``.npz``, ``.h5`` or ``.hdf5``, or
        ``path::member`` in a container that does not exist yet. Without a member
        HDF5 and ``.npz`` files name the array ``matrix``, and a zarr store is the
        array itself.
    shape : tuple of int
        Rows and columns.
    dtype : dtype_like
        Bool, integer, float32, float64, complex64 or complex128.
    tile : tuple of int
        Rows and columns of the regions that will be written; the chunks of zarr and
        HDF5.
    overwrite : bool
        Whether a matrix that is there may be replaced. It stays until `commit`. A
        container that holds anything else is refused.
    freed_bytes : int
        Disk space that will be free, beside what is, before the first tile is written.

    Returns
    -------
    MatrixWriter
        Takes the tiles, then `commit`.

    Raises
    ------
    StoreError
        The suffix or dtype is not allowed, the folder is missing or not writable, the
        target exists, or the disk has too little free space.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from twom_dist.store import create_matrix, open_matrix
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "C.zarr")
    ...     with create_matrix(path, (2, 2), np.complex128, (1, 2)) as C:
    ...         C[0:1, 0:2] = [[1, 2j]]
    ...         C[1:2, 0:2] = [[3, 4j]]
    ...     open_matrix(path)[0:2, 0:2].tolist()
    [[(1+0j), 2j], [(3+0j), 4j]]
    """
    writer = _check_place(path, shape, dtype, tile, overwrite)
    check_space(writer.format, writer, freed_bytes)
    with store_errors(writer.location, "written"):
        try:
            FORMAT_TABLE[writer.format].create(writer)
        except BaseException:
            writer.discard()
            raise
    return writer


def reopen_matrix(
    path: str | os.PathLike[str],
    journal: Journal,
    shape: Sequence[int],
    dtype: DTypeLike,
    tile: tuple[int, int],
    *,
    overwrite: bool = False,
) -> MatrixWriter:
    """Continue to write a matrix that an earlier run has left unfinished.

    All but its journal is as it was given to `create_matrix`. The temporary gets a new
    name, so that no process of that run writes to it.

    Raises
    ------
    StoreError
        As `create_matrix`, and where the temporary is not what it was created as.
    """
    try:
        writer = _check_place(path, shape, dtype, tile, overwrite)
    except StoreError as error:
        if error.code != "output-exists":
            raise
        raise StoreError(
            f"{journal.target!r} exists beside its unfinished successor",
            "Continue that with resume and overwrite: what exists stays until it is "
            "complete",
            "resume-beside-output",
        ) from None
    _check_begun(writer, journal.temporary)
    journal.move(writer.temporary)
    return writer


def _check_place(
    path: str | os.PathLike[str],
    shape: Sequence[int],
    dtype: DTypeLike,
    tile: tuple[int, int],
    overwrite: bool,
) -> MatrixWriter:
    """Return a writer whose temporary is not there yet."""
    location = parse_location(path)
    # The target of a link is replaced, not the link.
    target = os.path.realpath(location.path)
    writer = MatrixWriter(
        make_temporary_name(target),
        location.member,
        check_shape(str(location), tuple(shape)),
        check_dtype(str(location), dtype),
        tile,
        target,
        location.format,
        overwrite,
    )
    check_folder(target)
    check_target(location, target, overwrite)
    return writer


def _check_begun(writer: MatrixWriter, temporary: str) -> None:
    """Refuse a temporary that was not begun as what the writer is to write."""
    # An archive has no members before it is finished.
    kind = "npy" if writer.format == "npz" else writer.format
    with store_errors(temporary, "read"):
        found = FORMAT_TABLE[kind].describe(Location(temporary, None, kind))
    begun, named = found.location.member or "", FORMAT_TABLE[kind].DEFAULT_MEMBER
    if kind == writer.format and begun != (writer.member or named):
        raise StoreError(
            f"{writer.path!r} was begun "
            + (f"as member {begun!r}" if begun else "without a member"),
            "Name it so, or start anew with overwrite alone",
            "member-differs",
        )
    if (found.shape, native_dtype(found.dtype)) != (writer.shape, writer.dtype):
        raise StoreError(
            f"{temporary!r} is a {found.shape} matrix of {found.dtype} and was begun "
            f"as one of {writer.shape} and {writer.dtype}",
            "Start anew with overwrite alone",
            "unfinished-damaged",
        )
