"""The place where an output is made: here under its own name, in an object store."""

import os
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import StoreError
from . import _tree as tree
from ._errors import store_errors
from ._location import Location
from .output import COMPLETE, Manifest, Output, open_output

Commit = Callable[[], None]


class Signs(NamedTuple):
    """Signs that a run is at work on an output; None where they are not known."""

    # Whether a run holds the lock.
    locked: bool | None
    # When a run last showed that it is alive, in seconds since 1970.
    beat: float | None


@dataclass(frozen=True)
class Place:
    """The place of an output that is made under its own name, at a URL.

    The output is finished when its manifest says so, which is written last. An object
    store can neither rename nor lock, so nothing that is there is replaced or removed.
    """

    location: Location
    """Location of the output; for a link, with the path of the file it leads to."""

    @property
    def folder(self) -> str:
        """Path or URL under which the unfinished output lies."""
        return self.location.path

    def _store(self, id: str) -> str:
        return self.location.path

    @property
    def _member(self) -> str:
        """Name of the array in its store; empty unless the output is a zarr store."""
        return (self.location.member or "") if self.location.format == "zarr" else ""

    def find(self) -> tuple[Output, Manifest] | None:
        """Return the output that an earlier run left, with its manifest, if any."""
        with store_errors(self.location, "read"):
            # The store may be another user's, or not a store at all.
            path = os.path.join(self.location.path, self._member, "zarr.json")
            if not tree.exists(path):
                return None
            try:
                found = open_output(self.location.path, self._member)
            except ValueError:
                # Another user's store or a damaged one; `check` refuses both.
                return None
        return found if found[1].get(COMPLETE) is False else None

    def keep(self, look: bytes) -> None:
        """Keep the findings of a look, if there is a place for them: not at a URL."""

    def find_look(self) -> bytes | None:
        """Return the findings that an earlier run has kept, if any."""
        return None

    def output(
        self, shape: tuple[int, int], tile: tuple[int, int], dtype: np.dtype[Any]
    ) -> Output:
        """Return an output that does not exist yet."""
        id, (m, n), (mb, nb) = uuid.uuid4().hex[:12], shape, tile
        tile = min(mb, max(m, 1)), min(nb, max(n, 1))
        return Output(self._store(id), self._member, shape, tile, dtype, id)

    def check(self, overwrite: bool, anew: bool = True) -> None:
        """Refuse a place that cannot take the output, or continue it if not `anew`."""
        name = str(self.location)
        if self.location.member is not None:
            raise StoreError(
                f"{name!r} names a member, but an output at a URL is a whole store",
                "Omit the member",
                "url-member",
            )
        with store_errors(name, "written"):
            if anew and tree.exists(self.location.path):
                raise StoreError(
                    f"{name!r} exists, and outputs at URLs are never replaced",
                    "Remove it or choose another name",
                    "output-exists",
                )

    def check_visible(self) -> None:
        """Refuse a process that does not see the output that another one has begun."""
        with store_errors(self.location, "written"):
            tree.exists(self.location.path)

    def check_space(self, output: Output) -> None:
        """Refuse an output that does not fit; object stores are taken to have room."""

    def lock(self) -> AbstractContextManager[None]:
        """Keep other runs out, or refuse if one is in; object stores cannot lock."""
        return nullcontext()

    def watch(self) -> Signs:
        """Look for signs of a run; at a URL there are none but its tiles."""
        return Signs(None, None)

    def start(self, output: Output, manifest: Manifest) -> None:
        """Create the array."""
        output.create(manifest)

    def finish(
        self, output: Output, overwrite: bool, commit: Commit = lambda: None
    ) -> None:
        """Mark the output as complete in its manifest, if it is still the same one.

        `commit` is called last before anything is replaced.
        """
        with store_errors(self.location, "written"):
            output.check_id()
        commit()
        output.complete()

    def remove(self, output: Output) -> None:
        """Remove the files of an unfinished output, and nothing else."""
        with store_errors(self.folder, "removed"):
            output.check_id()
            for name in filter(tree.is_own, [*tree.list_files(self.folder)]):
                tree.remove(os.path.join(self.folder, name))
