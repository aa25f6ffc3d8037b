"""Objects that pass a connection, and the memory that this takes."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from distributed.protocol import serialize

from twom_dist.tiles.transport.passage import Passage
from twom_dist.tiles.transport.serialiser import FAMILY


def files_in_memory(process: int) -> list[str]:
    """List the files in memory that a process has lent or taken."""
    found = Path(f"/proc/{process}/maps").read_text().splitlines()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            found.append(os.readlink(descriptor))
    return [line for line in found if "memfd:twom-dist" in line]


def send(x: Any, way: Passage) -> tuple[dict[str, Any], list[bytes]]:
    """Serialise an object as dask does for a process that may be sent it by a way."""
    context = {"recipient": {FAMILY: way}}
    return serialize(x, [FAMILY, "dask", "pickle"], context=context)
