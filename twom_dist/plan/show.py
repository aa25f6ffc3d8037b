"""Tables as text, and counts in words."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context

Rows = Sequence[tuple[str, ...]]  # of cells, the first of which are short

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def as_text(rows: Rows) -> str:
    """Align the cells of rows, one row a line.

    >>> print(as_text([("method", "2m"), ("tasks", "12")]))
    method  2m
    tasks   12
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # The last cell may be long, and needs no padding.
    widths[-1:] = [0]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def name_count(number: int, noun: str, several: str = "") -> str:
    """Name a number of things; `several`: the plural, unless it just adds an s.

    >>> name_count(1, "task"), name_count(2, "task")
    ('1 task', '2 tasks')
    >>> name_count(2, "modulus", "moduli")
    '2 moduli'
    """
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def round_up(x: float, digits: int) -> float:
    """Round to some digits, never down."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return float(context.create_decimal_from_float(x))


def show_seconds(seconds: float) -> str:
    """Show a time by its largest unit and the next smaller one.

    >>> show_seconds(59.4), show_seconds(602), show_seconds(100_000)
    ('59s', '10m 2s', '1d 3h')
    """
    whole = round(seconds)
    units = [x for x in _UNITS if x[0] <= whole] or _UNITS[-1:]
    (size, name), *_ = units
    text = f"{whole // size}{name}"
    below = [f" {whole % size // part}{x}" for part, x in units[1:2]]
    return text + "".join(below)
