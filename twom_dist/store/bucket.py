"""The place of an output in an object store, where nothing is renamed or locked."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from twom_dist.errors import StoreError
from twom_dist.store._checks import store_errors
from twom_dist.store._location import Location
from twom_dist.store._target import check_target
from twom_dist.store._tree import exists, remove_tree
from twom_dist.store.output import COMPLETE, Manifest, Output, new_id, open_output


@dataclass(frozen=True)
class UnfinishedObject:
    """The place of an output that is made under its own name.

    It is finished when its manifest says so, which is written last. What it replaces
    is removed when it is begun. Two runs at a time are told apart by the manifest.

    Attributes
    ----------
    location : Location
        Of the output.
    """

    location: Location

    @property
    def folder(self) -> str:
        """URL of the output."""
        return self.location.path

    def find(self) -> tuple[Output, Manifest] | None:
        """Find what an earlier run has left, and its manifest, if anything."""
        with store_errors(self.location, "read"):
            # A store that is there may be somebody else's, or none.
            if not exists(os.path.join(self._array, "zarr.json")):
                return None
            found = open_output(self.location.path, self.location.member or "")
        return found if found[1].get(COMPLETE) is False else None

    @property
    def _array(self) -> str:
        return os.path.join(self.location.path, self.location.member or "").rstrip("/")

    def check(self, overwrite: bool) -> None:
        """Refuse a place that cannot take the output."""
        with store_errors(self.location, "written"):
            if self.find() is None:
                check_target(self.location, self.location.path, overwrite)

    def check_seen(self) -> None:
        """Refuse a process that cannot reach the object store."""
        with store_errors(self.location, "written"):
            exists(self.location.path)

    def check_busy(self) -> None:
        """Do nothing: object stores have no locks."""

    def check_space(self, output: Output) -> None:
        """Do nothing: object stores do not tell what they have room for."""

    def output(
        self, shape: tuple[int, int], tile: tuple[int, int], dtype: np.dtype[Any]
    ) -> Output:
        """Return an output that is not there yet."""
        member = self.location.member or ""
        return Output(self.location.path, member, shape, tile, dtype, new_id())

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep nobody out: object stores have no locks."""
        yield

    def start(self, output: Output, manifest: Manifest, overwrite: bool) -> None:
        """Remove what is there, if it may be replaced, and create the array."""
        self.check(overwrite)
        self.remove()
        output.create(manifest)

    def finish(
        self,
        output: Output,
        overwrite: bool,
        commit: Callable[[], None] = lambda: None,
    ) -> None:
        """Say in the manifest that the output is whole, if it is still the same one."""
        found = self.find()
        if found is None or found[0] != output:
            raise StoreError(
                f"another run has replaced {str(self.location)!r}",
                "Give each run an output of its own",
                "output-busy",
            )
        commit()
        output.complete()

    def remove(self) -> None:
        """Remove the output."""
        with store_errors(self.location, "removed"):
            remove_tree(self.location.path)
