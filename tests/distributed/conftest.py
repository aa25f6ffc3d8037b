"""What tests of jobs share."""

import pytest

from twom_dist.jobs import recording


@pytest.fixture
def every_tile_recorded(monkeypatch):
    """Record every tile, where jobs of seconds would record none."""
    monkeypatch.setattr(recording, "RECORD_SECONDS", 0)
    monkeypatch.setattr(recording, "RECORD_SHARE", 1e9)
