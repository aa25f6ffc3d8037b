"""Matrices that are written one rectangle at a time and appear when they are whole."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from twom_dist.errors import StoreError
from twom_dist.store._checks import check_dtype, check_shape, store_errors
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
from twom_dist.store._target import (
    check_folder,
    check_integers,
    check_space,
    check_target,
)


@dataclass(frozen=True)
class MatrixWriter:
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
    draft : Draft
        The temporary and its layout.

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
    draft: Draft

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.draft.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements, in native byte order."""
        return self.draft.dtype

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a tile."""
        return self.draft.tile

    @property
    def member(self) -> str | None:
        """Name of the array inside its container, None where it was not named."""
        return self.draft.member

    @property
    def ndim(self) -> int:
        """The number of dimensions, always 2."""
        return 2

    @property
    def concurrent(self) -> bool:
        """Whether several processes may write at once."""
        return FORMAT_TABLE[self.format].CONCURRENT

    def region(self, i: int, j: int) -> Region:
        """Return the region of a tile.

        Parameters
        ----------
        i, j : int
            Its place among the tiles.

        Returns
        -------
        tuple of slice
            Rows and columns; smaller ones for the last tiles.
        """
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
        given = np.asarray(values)
        location = self._location()
        if given.shape != region_shape(region):
            raise StoreError(
                f"a tile of shape {given.shape} was given for rows "
                f"{region[0].start}:{region[0].stop} and columns {region[1].start}:"
                f"{region[1].stop} of {str(location)!r}; shapes must be equal: give "
                f"one of shape {region_shape(region)}."
            )
        if not np.can_cast(given.dtype, self.dtype, "safe"):
            raise StoreError(
                f"a tile of {given.dtype} was given for {str(location)!r}, which holds "
                f"{self.dtype}; only safe casts are made: convert it first."
            )
        if given.size == 0:
            return
        with store_errors(location, "written"):
            tile = np.ascontiguousarray(given, dtype=self.dtype)
            FORMAT_TABLE[self.format].write(self.draft, region, tile)

    def sync(self, regions: Sequence[Region]) -> None:
        """Wait until what was written is on disk.

        Parameters
        ----------
        regions : sequence of tuple of slice
            Whole tiles that have been written.

        Raises
        ------
        StoreError
            The system could not write them after all.
        """
        with store_errors(self._location(), "written"):
            FORMAT_TABLE[self.format].sync(self.draft, regions)

    def commit(self) -> None:
        """Move the finished matrix to its name.

        Raises
        ------
        StoreError
            The writer has been committed or discarded already, the target has come up
            meanwhile or may no longer be replaced, or the system refuses the move; the
            temporary then stays.
        """
        temporary = self.draft.temporary
        if not os.path.exists(temporary):
            raise StoreError(
                f"{str(self._location())!r} has been committed or discarded already; "
                "create a new writer for it."
            )
        self._check_place()
        action = f"put in place from {temporary!r}, which is kept"
        with store_errors(self._location(), action):
            finished = FORMAT_TABLE[self.format].finish(self.draft)
            try:
                # Finishing may have copied the whole matrix.
                self._check_place()
                publish(finished, self.path)
            except BaseException:
                if finished != temporary:
                    remove(finished)
                raise
            remove(temporary)

    def _check_place(self) -> None:
        """Look again at what is there: it may have become something else."""
        if not self.overwrite and os.path.lexists(self.path):
            raise StoreError(
                f"{self.path!r} has come up since it was to be written; the finished "
                f"matrix is kept as {self.draft.temporary!r}: move one of the two."
            )
        check_target(self._location(), self.path, self.overwrite)

    def discard(self) -> None:
        """Remove the temporary; a second call, or one after `commit`, does nothing."""
        with store_errors(self.draft.temporary, "removed"):
            remove(self.draft.temporary)
            remove(packed_name(self.draft.temporary))

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

    def _location(self) -> Location:
        return Location(self.path, self.draft.member, self.format)


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
        The suffix, shape, dtype or tile is not allowed, the folder is missing or not
        writable, the target exists, or the disk has too little free space.

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
    location = parse_location(path)
    name = str(location)
    # The target of a link is replaced, not the link.
    target = os.path.realpath(location.path)
    draft = Draft(
        make_temporary_name(target),
        location.member,
        check_shape(name, check_integers(name, "shape", shape, 0)),
        check_dtype(name, dtype),
        check_shape(name, check_integers(name, "tile", tile, 1)),
    )
    check_folder(target)
    check_target(location, target, overwrite)
    check_space(location, draft, freed_bytes)
    writer = MatrixWriter(target, location.format, overwrite, draft)
    with store_errors(location, "written"):
        try:
            FORMAT_TABLE[location.format].create(draft)
        except BaseException:
            writer.discard()
            raise
    return writer
