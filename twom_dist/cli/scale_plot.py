"""Pictures of predictions, as SVG: seconds and efficiency over the workers."""

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log2, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..plan.scale import Prediction

WIDTH, LEFT, RIGHT, PANEL, GAP, TOP = 680, 70, 20, 200, 40, 34
BLUE, RED, GREY = "#4477aa", "#ee6677", "#bbbbbb"

Points = Sequence[tuple[float, float]]


def draw_scale(
    predictions: "Sequence[Prediction]", title: str, notes: Sequence[str]
) -> str:
    """Return the picture as SVG text.

    Parameters
    ----------
    predictions : sequence of Prediction
        For numbers of workers that rise.
    title : str
    notes : sequence of str
        Lines below the picture.
    """
    counts = [one.plan.workers for one in predictions]
    span = log2(counts[-1] / counts[0]) or 1.0

    def x(count: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * log2(count / counts[0]) / span

    seconds = [one.seconds for one in predictions]
    # What the int8 products alone would take, shared evenly.
    ideal = [one.ideal_seconds / one.plan.workers for one in predictions]
    drawn = [value for value in (*seconds, *ideal) if value > 0]
    low, high = floor(log10(min(drawn))), ceil(log10(max(drawn)))
    high = max(high, low + 1)
    bottom = TOP + PANEL

    def y(value: float) -> float:
        return bottom - PANEL * (log10(value) - low) / (high - low)

    floor_of_shares = bottom + GAP + PANEL

    def share(value: float) -> float:
        return floor_of_shares - PANEL * value

    height = floor_of_shares + 52 + 18 * len(notes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        _text(WIDTH / 2, 18, title, size=14),
        *_grid([(y(10.0**e), f"1e{e}") for e in range(low, high + 1)], "seconds"),
        *_grid([(share(p / 4), f"{p * 25}%") for p in range(5)], "efficiency"),
    ]
    parts += [_text(x(c), floor_of_shares + 16, str(c)) for c in counts]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, floor_of_shares + 34, "workers"))
    positive = [(x(c), y(t)) for c, t in zip(counts, ideal, strict=True) if t > 0]
    parts += _series(positive, GREY, dashed=True)
    parts += _series(_pair(counts, seconds, x, y), BLUE)
    efficiency = [one.efficiency for one in predictions]
    parts += _series(_pair(counts, efficiency, x, share), RED)
    for line, note in enumerate(notes):
        where = floor_of_shares + 54 + 18 * line
        parts.append(_text(LEFT, where, note, anchor="start"))
    return "\n".join([*parts, "</svg>\n"])


def _pair(
    counts: Sequence[int],
    values: Sequence[float],
    x: Callable[[int], float],
    y: Callable[[float], float],
) -> Points:
    return [(x(c), y(v)) for c, v in zip(counts, values, strict=True)]


def _text(
    x: float, y: float, text: str, *, size: int = 12, anchor: str = "middle"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _grid(ticks: Sequence[tuple[float, str]], name: str) -> list[str]:
    """Draw horizontal lines with their labels, and the name of the axis."""
    parts = []
    for y, label in ticks:
        parts.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{GREY}" '
            'stroke-width="0.5"/>'
        )
        parts.append(_text(LEFT - 8, y + 4, label, anchor="end"))
    middle = (ticks[0][0] + ticks[-1][0]) / 2
    parts.append(
        f'<text transform="translate(16 {middle:.1f}) rotate(-90)" '
        f'text-anchor="middle">{name}</text>'
    )
    return parts


def _series(points: Points, colour: str, *, dashed: bool = False) -> list[str]:
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = ' stroke-dasharray="5 4"' if dashed else ""
    parts = [
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"'
        f"{style}/>"
    ]
    if not dashed:
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
            for x, y in points
        ]
    return parts
