"""Files of others in the hidden folder of a job: no job removes them."""

import json
import os
import re
from pathlib import Path

from ..errors import StoreError
from . import _tree as tree
from .output import read_manifest

STORE = re.compile(r"([0-9a-f]{12})\.zarr(\.draft|\.old)?")
# In a store, or in a member of it; zarr leaves the partial ones where it is killed.
_OURS = re.compile(
    r"(.+/)?(zarr\.json|zarr\.[0-9a-f]+\.partial|c/\d+/\d+(\.[0-9a-f]+\.partial)?)"
)


def find_stranger(folder: str, output: str) -> str:
    """Name what no job has put into the hidden folder of an output; empty if nothing.

    `output`: path of the output. Once it is there, the store may hold what it has
    replaced, which has no manifest of ours.
    """
    name = os.path.basename(output)
    # Of an .npz an .npy file is made first.
    files = ("lock", "room", name, f"{name}.npy")
    for path in sorted(Path(folder).glob("*")):
        # A link goes as one, and what it leads to stays.
        whole = path.is_dir() and not path.is_symlink()
        store = STORE.fullmatch(path.name)
        if whole != bool(store) or not (store or path.name in files):
            return path.name
        if store is None:
            # A job writes nothing into the file that it locks.
            if path.name == "lock" and path.lstat().st_size and not path.is_symlink():
                return path.name
            continue
        for inside in tree.list_files(str(path)):
            if not (tree.is_own(inside) or _OURS.fullmatch(inside)):
                return os.path.join(path.name, inside)
        if not os.path.lexists(output) and _is_of_another(path, store[1]):
            return path.name
    return ""


def _is_of_another(store: Path, id: str) -> bool:
    """Tell whether all that a store says of itself is readable, and not of this run."""
    found = []
    for path in store.rglob("zarr.json"):
        try:
            tree.check_file(str(path))
            attributes = json.loads(path.read_bytes()).get("attributes")
            found.append(read_manifest(attributes or {}).get("id"))
        except (OSError, ValueError, AttributeError, RecursionError, StoreError):
            return False
    return bool(found) and id not in found
