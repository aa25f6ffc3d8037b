"""Draw waves.svg: which parts of A and B a job on files holds, and what it writes.

python docs/pictures/waves.py > docs/pictures/waves.svg
"""

SIDE, STRIP, GAP, FRAME = 120, 46, 10, 230
HELD, DONE, NOW, EMPTY = "#33669a", "#777", "#1f7a2e", "#eee"
# Where each wave begins in C, in rows and columns of three, and how many it has.
WAVES = ((0, 0, 2, 2), (0, 2, 2, 1), (2, 0, 1, 3))


def box(x: float, y: float, wide: float, high: float, colour: str) -> str:
    """Draw a rectangle."""
    place = f'x="{x:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{high:.0f}"'
    return f'<rect {place} fill="{colour}" stroke="#999"/>'


def draw() -> str:
    """Return the picture as SVG text."""
    width, unit, top = 3 * FRAME + 20, SIDE / 3, 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="290" '
        'font-family="sans-serif" font-size="14" text-anchor="middle">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for i, (row, column, rows, columns) in enumerate(WAVES):
        left = 20 + i * FRAME
        x, y = left + STRIP + GAP, top + STRIP + GAP
        parts.append(
            f'<text x="{x + SIDE / 2}" y="26" font-weight="bold">wave {i + 1}</text>'
        )
        parts += [box(left, y, STRIP, SIDE, EMPTY), box(x, top, SIDE, STRIP, EMPTY)]
        parts.append(box(x, y, SIDE, SIDE, EMPTY))
        parts.append(box(left, y + row * unit, STRIP, rows * unit, HELD))
        parts.append(box(x + column * unit, top, columns * unit, STRIP, HELD))
        for j, (r, c, high, wide) in enumerate(WAVES[: i + 1]):
            colour = NOW if j == i else DONE
            place = x + c * unit, y + r * unit, wide * unit, high * unit
            parts.append(box(*place, colour))
        ink = 'fill="#fff" font-weight="bold"'
        middle = x + (column + columns / 2) * unit
        parts += [
            f'<text x="{left + STRIP / 2}" y="{y + (row + rows / 2) * unit + 5}" '
            f"{ink}>A</text>",
            f'<text x="{middle}" y="{top + STRIP / 2 + 5}" {ink}>B</text>',
            f'<text x="{middle}" y="{y + (row + rows / 2) * unit + 5}" {ink}>C</text>',
        ]
    x = 60
    told = {
        HELD: "in memory",
        NOW: "computed now",
        DONE: "on the disk",
        EMPTY: "not yet",
    }
    for colour, text in told.items():
        parts.append(box(x, 246, 16, 16, colour))
        parts.append(f'<text x="{x + 24}" y="259" text-anchor="start">{text}</text>')
        x += 50 + 9 * len(text)
    return "\n".join([*parts, "</svg>"])


if __name__ == "__main__":
    print(draw())
