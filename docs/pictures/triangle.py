"""Draw triangle.svg: which tiles of an 8 x 8 Hermitian result are computed, and where.

python docs/pictures/triangle.py > docs/pictures/triangle.svg
"""

from twom_dist.tiles.dask.placement.triangle import triangle_map

TILES, WORKERS, SIDE = 8, 6, 44
# White digits have a contrast of 4.5 and more to each.
COLOURS = ("#33669a", "#c2334a", "#1f7a2e", "#7a6a00", "#00708f", "#8f2a63")


def draw() -> str:
    """Return the picture as SVG text."""
    triangle = triangle_map(TILES, WORKERS)
    size, legend = TILES * SIDE + 2, 76
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" '
        f'height="{size + legend}" font-family="sans-serif" font-size="15" '
        'text-anchor="middle">'
    ]
    for i in range(TILES):
        for j in range(TILES):
            x, y = 1 + j * SIDE, 1 + i * SIDE
            slot = triangle.slot(i, j)
            style = f'fill="{COLOURS[slot]}"'
            if j > i:
                style = f'fill="none" stroke="{COLOURS[slot]}" stroke-dasharray="4 3"'
            inner = SIDE - 4
            parts.append(
                f'<rect x="{x + 2}" y="{y + 2}" width="{inner}" height="{inner}" '
                f'rx="4" {style}/>'
            )
            if j <= i:
                where = f'x="{x + SIDE / 2}" y="{y + SIDE / 2 + 5}"'
                parts.append(f'<text {where} fill="#fff">{1 if i == j else 2}</text>')
    caption = (
        "colour: the worker that computes the tile",
        "number: int8 products for each modulus",
        "dashed: mirrored, not computed",
    )
    for line, text in enumerate(caption):
        y = size + 22 + 20 * line
        parts.append(f'<text x="{size / 2}" y="{y}" font-size="13">{text}</text>')
    return "\n".join([*parts, "</svg>"])


if __name__ == "__main__":
    print(draw())
