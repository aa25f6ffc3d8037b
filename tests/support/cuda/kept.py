"""What compilers make of the kernels' text, kept from one session to the next."""

import hashlib
import os
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kept(request, tmp_path_factory):
    """Return a file named by all that it is made of, which the first who asks makes."""
    cache = getattr(request.config, "cache", None)
    place = cache.mkdir("cuda") if cache else tmp_path_factory.mktemp("cuda")

    def keep(suffix, parts, make):
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        path = Path(place, digest + suffix)
        if not path.exists():
            # Renamed when it is whole: other sessions and threads may look meanwhile.
            with tempfile.TemporaryDirectory(dir=place) as folder:
                made = Path(folder) / path.name
                make(made)
                os.replace(made, path)
        return path

    return keep
