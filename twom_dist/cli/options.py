"""Options that the commands share, and what their values may look like."""

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import click
from dask.utils import parse_bytes

from ..problem import OPS, UPLOS


def _value(name: str, example: str, read: Callable[[str], Any]) -> Any:
    """Make a type of values: its name in help texts, an example and what reads it."""

    def convert(value: Any) -> Any:
        try:
            return read(str(value))
        except (ValueError, OverflowError):
            raise click.BadParameter(f"{value!r} is not {example}") from None

    convert.__name__ = name
    return convert


def _read_shape(text: str) -> tuple[int, int]:
    rows, columns = text.lower().replace("x", ",").split(",")
    return int(rows), int(columns)


def _read_size(text: str) -> int:
    if (count := int(parse_bytes(text))) <= 0:
        raise ValueError
    return count


def _read_seconds(text: str) -> float:
    if not 0 < (seconds := float(text)) < inf:
        raise ValueError
    return seconds


def _read_accuracy(text: str) -> str | float:
    """Leave words to the checks, which know them."""
    try:
        return float(text)
    except ValueError:
        return text


NUMBER = _value("number", "a number such as 2, -0.5 or 1+2j", complex)
SHAPE = _value("m,n", "a pair such as 4096,2048", _read_shape)
SIZE = _value("bytes", "a size such as 4GiB or 500MB", _read_size)
SECONDS = _value("seconds", "a number of seconds such as 10", _read_seconds)
ACCURACY = _value("accuracy", "an accuracy", _read_accuracy)
COUNT = click.IntRange(1)
_FILE = click.Path(exists=True, dir_okay=False)


def option(names: str, kind: Any, about: str, **more: Any) -> click.Option:
    """Make an option; those of a command are a list."""
    return click.Option(names.split(), type=kind, help=about, **more)


def flag(names: str, about: str, **more: Any) -> click.Option:
    """Make an option without a value."""
    return click.Option(names.split(), is_flag=True, help=about, **more)


def given(**options: Any) -> dict[str, Any]:
    """Keep the options that were given: the library knows the defaults."""
    return {name: value for name, value in options.items() if value is not None}


def take(options: dict[str, Any], some: Iterable[click.Option]) -> dict[str, Any]:
    """Move the values of some options out of all of them."""
    return {x.name: options.pop(x.name) for x in some if x.name}


OP_OPTIONS = [
    option(
        "--op-a",
        click.Choice(OPS),
        "Use A as stored (N, default), transposed (T) or conjugate-transposed (C).",
    ),
    option("--op-b", click.Choice(OPS), "The same for B."),
]
UPLO_OPTION = option(
    "--uplo",
    click.Choice(UPLOS),
    "Write all of C (default), or one triangle and zeros in the other.",
)
METHOD_OPTIONS = [
    option(
        "--accuracy",
        ACCURACY,
        "Accuracy of the result: native (default), normwise, or a bound such as 1e-12.",
    ),
    option("--num-moduli", int, "Number of moduli, instead of an accuracy."),
    option(
        "--method",
        str,
        "How complex products are made of real ones: 2m (default), hybrid or native "
        "(BLAS); 3m and 4m are for comparison.",
    ),
    option(
        "--engine",
        str,
        "What multiplies: auto (default; GPUs if all workers have one), cpu or cuda; "
        "reference is for comparison.",
    ),
]
TILE_OPTION = option(
    "--tile", COUNT, "Rows and columns of a tile [default: chosen by the planner]."
)
SCHEDULER_OPTIONS = [
    option("--scheduler", str, "Address of the dask scheduler to use."),
    option("--scheduler-file", str, "Use the dask scheduler that wrote this file."),
    option("--tls-ca-file", _FILE, "CA certificate of a TLS scheduler."),
    option("--tls-cert tls_client_cert", _FILE, "Client certificate (PEM)."),
    option(
        "--tls-key tls_client_key",
        _FILE,
        "Key of the client certificate [default: in the same file].",
    ),
    option(
        "--timeout",
        SECONDS,
        "How long to wait for the scheduler, and for its first worker.",
        default=10,
        show_default=True,
    ),
]
# Both are looked for among all arguments where a command ends.
DEBUG_OPTION = flag("--debug", "Show tracebacks and logs.", expose_value=False)
JSON_OPTION = flag(
    "--json as_json", "Print one line of JSON on stdout, for errors as well."
)
