"""Settings under `twom-dist` in dask.config, and their defaults."""

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any

import dask
import yaml
from dask.utils import parse_bytes

from .errors import PlanError


def load_defaults() -> None:
    """Add the defaults of `twom_dist.yaml`; the user's settings take precedence."""
    text = files(__package__).joinpath("twom_dist.yaml").read_text()
    defaults = yaml.safe_load(text)
    dask.config.update_defaults(defaults)


def setting(name: str) -> Any:
    """Read ``twom-dist.<name>``."""
    try:
        config = dask.config.config
        # dask's own function takes four times as long, for each of ten settings. They
        # have the second name where a variable of the environment set one.
        return (config.get("twom-dist") or config["twom_dist"])[name]
    except (KeyError, TypeError):  # of who has cleared what dask knows
        with suppress(KeyError, TypeError):
            return dask.config.get(f"twom-dist.{name}")
    raise PlanError(
        f"the settings twom-dist in dask.config do not hold {name}",
        "Put a mapping there, or take out what is there and call dask.config.refresh()",
        "setting",
    )


def settings(names: tuple[str, ...]) -> list[Any]:
    """Read several at once."""
    try:
        config = dask.config.config
        own = config.get("twom-dist") or config["twom_dist"]
        return [own[name] for name in names]
    except (KeyError, TypeError):
        return [setting(name) for name in names]


def _refuse(name: str, allowed: str) -> PlanError:
    problem = f"the setting twom-dist.{name} is {setting(name)!r} instead of {allowed}"
    return PlanError(problem, "Change it in dask.config or the environment", "setting")


def integer_setting(name: str) -> int:
    """Read a positive integer."""
    value = setting(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _refuse(name, "a positive integer")
    return value


def _read(fits: Callable[[Any], bool], allowed: str, name: str) -> Any:
    """Read a setting, or refuse what is there."""
    value = setting(name)
    if not fits(value):
        raise _refuse(name, allowed)
    return value


flag_setting: Callable[[str], bool] = partial(
    _read, lambda x: isinstance(x, bool), "true or false"
)
text_setting: Callable[[str], str] = partial(
    _read, lambda x: isinstance(x, str) and x != "", "a text"
)
size_setting: Callable[[str], float | None] = partial(
    _read,
    lambda x: x is None or (type(x) in (int, float) and x >= 0),
    "null or a number of at least 0",
)


# For the memory of small products again and again.
_parse_bytes = lru_cache(maxsize=64)(parse_bytes)


def bytes_setting(name: str, default: int | None = None) -> int:
    """Read a size such as "2 GiB", and return its bytes; null is the default."""
    if default is not None and setting(name) is None:
        return default
    try:
        return int(_parse_bytes(setting(name)))
    except (TypeError, ValueError, AttributeError, OverflowError):
        raise _refuse(name, 'a size such as "2 GiB"') from None


_CHOICES = {"inputs": ("auto", "hold", "stream"), "transport": ("auto", "dask")}


def choice_setting(name: str) -> str:
    """Read one of some words."""
    value, choices = setting(name), _CHOICES[name]
    if value not in choices:
        raise _refuse(name, " or ".join(map(repr, choices)))
    return str(value)


def level_setting(name: str) -> int | None:
    """Read a number of levels, from 0 to 2, or null."""
    value = setting(name)
    if value is None:
        return None
    if isinstance(value, bool) or value not in range(3):
        raise _refuse(name, "null or an integer from 0 to 2")
    return int(value)


_READERS: dict[str, Callable[[str], object]] = {
    "threads": lambda x: setting(x) is None or integer_setting(x),
    "largest-tile": integer_setting,
    **dict.fromkeys(
        ("cache-bytes", "workspace-bytes", "reuse-bytes", "panel-bytes"),
        partial(bytes_setting, default=0),
    ),
    **dict.fromkeys(_CHOICES, choice_setting),
    **dict.fromkeys(("refuse-memory", "placement"), flag_setting),
    "winograd-levels": level_setting,
    "blas-below": size_setting,
    "crossovers": text_setting,
}


def check_settings() -> None:
    """Refuse what is read late, or not by every product."""
    for name, read in _READERS.items():
        read(name)
