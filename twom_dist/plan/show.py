"""A title and rows, as text for a terminal and as HTML for a notebook; counts."""

from collections.abc import Sequence
from html import escape

# Of each row the cells; the first ones are short.
Rows = Sequence[tuple[str, ...]]

# No colours: those of the notebook are right in the dark and in the light.
_LEFT = 'style="text-align: left"'


def as_text(rows: Rows) -> str:
    """Align the cells of rows, one row a line.

    Examples
    --------
    >>> print(as_text([("method", "2m"), ("tasks", "12")]))
    method  2m
    tasks   12
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # What comes last may be long, and needs nothing behind it.
    widths[-1:] = [0]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def name_count(number: int, noun: str, several: str = "") -> str:
    """Name a number of things; `several`: the plural, where that is not one with s.

    Examples
    --------
    >>> name_count(1, "task"), name_count(2, "task")
    ('1 task', '2 tasks')
    >>> name_count(2, "modulus", "moduli")
    '2 moduli'
    """
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def as_html(title: str, rows: Rows) -> str:
    """Make a table of rows whose first cells are headings; every text is escaped.

    Examples
    --------
    >>> "<td" in as_html("Plan", [("tasks", "<12>")])
    True
    """
    lines = [
        f'<tr><th scope="row" {_LEFT}>{escape(head)}</th>'
        + "".join(f"<td {_LEFT}>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for head, *cells in rows
    ]
    caption = f"<caption {_LEFT}><b>{escape(title)}</b></caption>"
    return f"<table>{caption}<tbody>{''.join(lines)}</tbody></table>"
