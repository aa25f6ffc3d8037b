"""Options that the commands share, and what their values may look like."""

from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any

import click

from ..problem import OPS, UPLOS

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def parse_number(value: Any) -> complex:
    """Read a number such as 2, -0.5 or 1+2j."""
    try:
        return complex(value.replace(" ", "") if isinstance(value, str) else value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a number such as 2, -0.5 or 1+2j"
        ) from None


def parse_accuracy(value: Any) -> str | float:
    """Read a number, and leave words to the checks, which know them."""
    try:
        return float(value)
    except ValueError:
        return str(value)


def parse_shape(value: Any) -> tuple[int, int]:
    """Read rows and columns, as 4096,2048 or 4096x2048."""
    parts = str(value).lower().replace("x", ",").split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r} is not a pair such as 4096,2048")
    return int(parts[0]), int(parts[1])


def parse_size(value: Any) -> int:
    """Read a number of bytes such as 4GiB."""
    from dask.utils import parse_bytes

    try:
        count = int(parse_bytes(value))
    except (ValueError, OverflowError):
        count = 0
    if count <= 0:
        raise click.BadParameter(f"{value!r} is not a size such as 4GiB or 500MB")
    return count


def parse_seconds(value: Any) -> float:
    """Read a number of seconds that passes."""
    with suppress(ValueError):
        if 0 < (seconds := float(value)) < inf:
            return seconds
    raise click.BadParameter(f"{value!r} is not a number of seconds such as 10")


def apply_all(*decorators: Any) -> Decorator:
    """Make one decorator of several, the first on top."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


_OPS = click.Choice(OPS)

op_options = apply_all(
    click.option(
        "--op-a",
        type=_OPS,
        help="Use A as stored (N, default), transposed (T) or conjugate-transposed "
        "(C).",
    ),
    click.option("--op-b", type=_OPS, help="The same for B."),
)

uplo_option = click.option(
    "--uplo",
    type=click.Choice(UPLOS),
    help="Write all of C (default), or one triangle and zeros in the other.",
)

method_options = apply_all(
    click.option(
        "--accuracy",
        type=parse_accuracy,
        metavar="ACCURACY",
        help="Accuracy of the result: native (default), normwise, or a bound such as "
        "1e-12.",
    ),
    click.option(
        "--num-moduli", type=int, help="Number of moduli, instead of an accuracy."
    ),
    click.option(
        "--method",
        help="How complex products are made of real ones: 2m (default), hybrid or "
        "native (BLAS); 3m and 4m are for comparison.",
    ),
    click.option(
        "--engine",
        help="What multiplies: auto (default; GPUs if all workers have one), cpu or "
        "cuda; reference is for comparison.",
    ),
)

_FILE = click.Path(exists=True, dir_okay=False)

tile_option = click.option(
    "--tile",
    type=click.IntRange(1),
    help="Rows and columns of a tile [default: chosen by the planner].",
)

scheduler_options = apply_all(
    click.option(
        "--scheduler", metavar="ADDRESS", help="Use the dask scheduler at this address."
    ),
    click.option(
        "--scheduler-file",
        metavar="FILE",
        help="Use the dask scheduler that wrote this file.",
    ),
    click.option(
        "--tls-ca-file",
        type=_FILE,
        metavar="FILE",
        help="CA certificate of a TLS scheduler.",
    ),
    click.option(
        "--tls-cert", type=_FILE, metavar="FILE", help="Client certificate (PEM)."
    ),
    click.option(
        "--tls-key",
        type=_FILE,
        metavar="FILE",
        help="Key of the client certificate [default: in the same file].",
    ),
    click.option(
        "--timeout",
        type=parse_seconds,
        metavar="SECONDS",
        default=10,
        show_default=True,
        help="How long to wait for the scheduler, and for its first worker.",
    ),
)

debug_option = click.option("--debug", is_flag=True, help="Show tracebacks and logs.")
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one line of JSON on stdout, for errors as well.",
)


def given(**options: Any) -> dict[str, Any]:
    """Keep the options that were given: the library knows the defaults."""
    return {name: value for name, value in options.items() if value is not None}
