"""Defaults under `twom-dist` in dask.config."""

from importlib.resources import files
from typing import Any

import dask
import yaml
from dask.utils import parse_bytes


def load_defaults() -> None:
    """Add the defaults of `twom_dist.yaml` below whatever the user has set."""
    text = files(__package__).joinpath("twom_dist.yaml").read_text()
    defaults = yaml.safe_load(text)
    dask.config.update_defaults(defaults)


def setting(name: str) -> Any:
    """Read ``twom-dist.<name>``."""
    return dask.config.get(f"twom-dist.{name}")


def bytes_setting(name: str) -> int:
    """Read a size such as "2 GiB" in bytes."""
    return int(parse_bytes(setting(name)))
