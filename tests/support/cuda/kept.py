"""What compilers make of the kernels' text, kept from one session to the next."""

import hashlib
import os
import tempfile
from pathlib import Path

import pytest


class Kept:
    """Files in a folder, each named by everything that it was made of."""

    def __init__(self, folder):
        self._folder = folder

    def get(self, suffix, parts, make):
        """Return a file, which `make` writes if no session has made it before."""
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        path = self._folder / (digest + suffix)
        if not path.exists():
            # Renamed when it is whole: other sessions and threads may look meanwhile.
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                made = Path(folder) / path.name
                make(made)
                os.replace(made, path)
        return path


@pytest.fixture(scope="session")
def kept(request, tmp_path_factory):
    """What compilers have made, in pytest's cache if it has one."""
    cache = getattr(request.config, "cache", None)
    folder = cache.mkdir("cuda") if cache else tmp_path_factory.mktemp("cuda")
    return Kept(Path(folder))
