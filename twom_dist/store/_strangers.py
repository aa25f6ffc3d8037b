"""Files in the hidden folder of a job that no job wrote, and so none removes."""

import json
import os
import re
from pathlib import Path

from ..errors import StoreError
from . import _tree as tree
from .output import read_manifest

STORE = re.compile(r"([0-9a-f]{12})\.zarr(\.draft|\.old)?")
# Files of a store or of a member of it; zarr leaves partial ones when it is killed.
_OURS = re.compile(
    r"(.+/)?(zarr\.json|zarr\.[0-9a-f]+\.partial|c/\d+/\d+(\.[0-9a-f]+\.partial)?)"
)


def find_stranger(folder: str, output: str) -> str:
    """Name what no job put into the hidden folder of an output; empty if nothing.

    `output`: path of the output. Once the output exists, the store may hold what it
    replaced, without a manifest of ours.
    """
    name = os.path.basename(output)
    # An .npz is made from an .npy file.
    files = ("lock", "room", "look", "look.draft", name, f"{name}.npy")
    for path in sorted(Path(folder).glob("*")):
        # Removing a link leaves what it leads to, so a link counts as a file.
        whole = path.is_dir() and not path.is_symlink()
        store = STORE.fullmatch(path.name)
        if whole != bool(store) or not (store or path.name in files):
            return path.name
        if store is None:
            # Jobs write nothing into the lock file.
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
    """Return True if all metadata of a store is readable, and none names this run."""
    found = []
    for path in store.rglob("zarr.json"):
        try:
            tree.check_file(str(path))
            attributes = json.loads(path.read_bytes()).get("attributes")
            found.append(read_manifest(attributes or {}).get("id"))
        except (OSError, ValueError, AttributeError, RecursionError, StoreError):
            return False
    return bool(found) and id not in found
