"""Where an output is made: under its own name, in an object store."""

import os
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import StoreError
from . import _tree as tree
from ._errors import store_errors
from ._location import Location
from .output import COMPLETE, Manifest, Output, open_output

Commit = Callable[[], None]


@dataclass(frozen=True)
class Place:
    """The place of an output that is made under its own name, at a URL.

    It is finished when its manifest says so, which is written last. Nothing can be
    renamed or locked there, so what is there already is neither replaced nor removed.
    """

    location: Location
    """Of the output; its path is that of the file, where a link was given."""

    @property
    def folder(self) -> str:
        """Path or URL of what is unfinished."""
        return self.location.path

    def _store(self, id: str) -> str:
        return self.location.path

    @property
    def _member(self) -> str:
        """Of the array in its store, which becomes the output only if it is a zarr."""
        return (self.location.member or "") if self.location.format == "zarr" else ""

    def find(self) -> tuple[Output, Manifest] | None:
        """Find what an earlier run has left, and its manifest, if anything."""
        with store_errors(self.location, "read"):
            # A store that is there may be somebody else's, or none.
            path = os.path.join(self.location.path, self._member, "zarr.json")
            if not tree.exists(path):
                return None
            try:
                found = open_output(self.location.path, self._member)
            except ValueError:
                # That of somebody else, or a damaged one, which `check` finds there.
                return None
        return found if found[1].get(COMPLETE) is False else None

    def output(
        self, shape: tuple[int, int], tile: tuple[int, int], dtype: np.dtype[Any]
    ) -> Output:
        """Return an output that is not there yet."""
        id, (m, n), (mb, nb) = uuid.uuid4().hex[:12], shape, tile
        tile = min(mb, max(m, 1)), min(nb, max(n, 1))
        return Output(self._store(id), self._member, shape, tile, dtype, id)

    def check(self, overwrite: bool, anew: bool = True) -> None:
        """Refuse a place that cannot take the output, or where it cannot continue."""
        name = str(self.location)
        if self.location.member is not None:
            raise StoreError(
                f"{name!r} names a member, and an output at a URL is a whole store",
                "Leave out the member",
                "url-member",
            )
        with store_errors(name, "written"):
            if anew and tree.exists(self.location.path):
                raise StoreError(
                    f"{name!r} exists, and what is at a URL is not replaced",
                    "Remove it or choose another name",
                    "output-exists",
                )

    def check_seen(self) -> None:
        """Refuse a process that does not see what another one has begun."""
        with store_errors(self.location, "written"):
            tree.exists(self.location.path)

    def check_space(self, output: Output) -> None:
        """Refuse an output for which there is no room, beside what is there."""

    def lock(self) -> AbstractContextManager[None]:
        """Keep other runs out; refuse to where one is in."""
        return nullcontext()

    def start(self, output: Output, manifest: Manifest) -> None:
        """Create the array."""
        output.create(manifest)

    def finish(
        self, output: Output, overwrite: bool, commit: Commit = lambda: None
    ) -> None:
        """Say in the manifest that the output is whole, if it is still the same one.

        `commit` is called at the last moment at which nothing has been replaced.
        """
        with store_errors(self.location, "written"):
            output.check_id()
        commit()
        output.complete()

    def remove(self, output: Output) -> None:
        """Remove what is unfinished of an output, and nothing else."""
        with store_errors(self.folder, "removed"):
            output.check_id()
            for name in filter(tree.is_own, [*tree.list_files(self.folder)]):
                tree.remove(os.path.join(self.folder, name))
