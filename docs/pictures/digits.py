"""Draw digits.svg: how many digits of a product a number of moduli gives.

python docs/pictures/digits.py > docs/pictures/digits.svg
"""

import json
from math import log10
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
WIDTH, HEIGHT, LEFT, BASE, STEP, UNIT = 720, 330, 60, 260, 48, 13
BLUE, RED = "#33669a", "#b3261e"


def read() -> dict[tuple[str, int], float]:
    """Read the largest errors of all entries, by method and number of moduli."""
    lines = (RESULTS / "figures-cpu-zen5.jsonl").read_text().splitlines()
    asked = {"benchmark": "figure-errors", "phi": 1.0, "kind": "complex"}
    found = (x for x in map(json.loads, lines) if asked.items() <= x.items())
    return {(x["method"], x["num_moduli"]): x["error"] for x in found}


def draw() -> str:
    """Return the picture as SVG text."""
    errors = read()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="14" text-anchor="middle">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{WIDTH / 2}" y="22" font-weight="bold">Correct digits of the '
        "worst entry, n = 256</text>",
    ]
    for i, n in enumerate(range(6, 19)):
        digits = -log10(errors["2m", n])
        x, top = LEFT + i * STEP, BASE - digits * UNIT
        place = f'x="{x}" y="{top:.1f}" width="{STEP - 8}" height="{BASE - top:.1f}"'
        parts.append(f'<rect {place} fill="{BLUE}"/>')
        middle = f'x="{x + STEP / 2 - 4}"'
        parts.append(f'<text {middle} y="{BASE - 8}" fill="#fff">{digits:.1f}</text>')
        parts.append(f'<text {middle} y="{BASE + 18}">{n}</text>')
    line = BASE + log10(errors["native", 0]) * UNIT
    parts += [
        f'<path d="M{LEFT - 10} {line:.1f}H{WIDTH - 30}" stroke="{RED}" '
        'stroke-width="2" stroke-dasharray="6 4"/>',
        f'<text x="{LEFT - 8}" y="{line - 7:.1f}" fill="{RED}" text-anchor="start">'
        f"NumPy's own product: {-log10(errors['native', 0]):.1f}</text>",
        f'<text x="{WIDTH / 2}" y="{BASE + 42}">moduli: the int8 work grows with '
        "their number</text>",
        f'<text x="{WIDTH / 2}" y="{BASE + 62}" fill="#444">magnitudes spread over '
        "exp(N(0, 1)); from 16 on only the final rounding is left</text>",
    ]
    return "\n".join([*parts, "</svg>"])


if __name__ == "__main__":
    print(draw())
