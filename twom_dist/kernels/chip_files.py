"""Sizes measured on this user's chips, kept in a file for each chip, by its name.

The files are in the folder of the setting ``twom-dist.crossovers``. Files of other
releases of this package are not used.
"""

import json
import os
import re
from functools import cache
from importlib import import_module
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from uuid import uuid4

from ..config import setting, text_setting
from ..errors import StoreError

PRODUCTS = "products by cuBLAS"  # that from which cuBLAS outruns products_mma.cu


def path_of(chip: str) -> Path:
    """Name the file of a chip."""
    folder = Path(text_setting("crossovers")).expanduser()
    slug = re.sub(r"[^a-z0-9]+", "-", chip.lower()).strip("-")
    return folder / f"{slug}.json"


def read(chip: str) -> dict[str, Any] | None:
    """Read what was measured on a chip; None for what cannot be used."""
    try:
        path = path_of(chip)
    except RuntimeError:  # there is no home
        return None
    return _read(chip, path)


@cache
def _read(chip: str, path: Path) -> dict[str, Any] | None:
    try:
        told = json.loads(path.read_text("utf-8"))
        sizes = {x: inf if y is None else float(y) for x, y in told["n"].items()}
        usable = told["twom_dist"] == _release() and told["chip"] == chip
        usable = usable and all(size >= 0 for size in sizes.values())
        return {**told, "date": str(told["date"]), "n": sizes} if usable else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    except (ArithmeticError, RecursionError):
        return None


def check_folder(chip: str) -> None:
    """Make the folder of a chip's file; refuse one where nothing can be written."""
    try:
        folder = path_of(chip).parent
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError) as error:
        problem = f"no sizes can be kept in {setting('crossovers')!r} ({error})"
        remedy = "Name another folder in the setting twom-dist.crossovers"
        raise StoreError(problem, remedy, "crossovers") from error


def write(chip: str, date: str, sizes: dict[str, float]) -> Path:
    """Keep sizes by "routine dtype" or `PRODUCTS`; infinite where none was faster."""
    path = path_of(chip)
    told = {
        "chip": chip,
        "twom_dist": _release(),
        "date": date,
        "n": {x: None if y == inf else round(y, 1) for x, y in sizes.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two threads, or machines that share a home, may write at the same time.
    partial = path.with_suffix(f".{uuid4().hex}")
    try:
        partial.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    _read.cache_clear()
    return path


def _release() -> str:
    return str(import_module(__package__.partition(".")[0]).__version__)
