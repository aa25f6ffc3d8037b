"""Draw cuttings.svg: three cuttings of one product, and what its bytes hash to.

python docs/pictures/cuttings.py > docs/pictures/cuttings.svg
"""

from hashlib import sha256

import dask.array as da
import numpy as np

import twom_dist as td

N, SIDE, GAP, TOP = 300, 180, 55, 40
CUTS = {"one piece": (300,), "2 x 2 tiles": (150, 150), "uneven": (40, 170, 90)}
COLOURS = ("#33669a", "#1f7a2e", "#8f2a63")


def hash_product(cut: tuple[int, ...]) -> str:
    """Multiply chunks, and hash the result, which is the same on every machine."""
    rng = np.random.default_rng(1)
    A, B = (rng.random((N, N)) + 1j * rng.random((N, N)) for _ in range(2))
    x, y = (da.from_array(each, chunks=(cut, cut)) for each in (A, B))
    return sha256(td.gemm(x, y).compute().tobytes()).hexdigest()[:12]


def draw() -> str:
    """Return the picture as SVG text."""
    width = 3 * SIDE + 4 * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="330" '
        'font-family="sans-serif" font-size="15" text-anchor="middle">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    hashes = set()
    for i, (name, cut) in enumerate(CUTS.items()):
        left = GAP + i * (SIDE + GAP)
        middle = left + SIDE / 2
        parts.append(f'<text x="{middle}" y="26">{name}</text>')
        edges = [SIDE * sum(cut[:j]) / N for j in range(len(cut))]
        for y, high in zip(edges, cut, strict=True):
            for x, wide in zip(edges, cut, strict=True):
                size = f'width="{SIDE * wide / N:.0f}" height="{SIDE * high / N:.0f}"'
                place = f'x="{left + x:.0f}" y="{TOP + y:.0f}"'
                style = f'fill="{COLOURS[i]}" stroke="#fff" stroke-width="3"'
                parts.append(f"<rect {place} {size} {style}/>")
        line = f'd="M{middle} {TOP + SIDE + 6}L{width / 2} 266" stroke="#555"'
        parts.append(f'<path {line} stroke-width="1.5"/>')
        hashes.add(hash_product(cut))
    (only,) = hashes
    parts += [
        f'<rect x="{width / 2 - 170}" y="266" width="340" height="40" rx="5" '
        'fill="#eee" stroke="#999"/>',
        f'<text x="{width / 2}" y="292">SHA-256 of C: '
        f'<tspan font-family="monospace">{only}...</tspan></text>',
    ]
    return "\n".join([*parts, "</svg>"])


if __name__ == "__main__":
    print(draw())
