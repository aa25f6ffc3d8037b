"""Draw speed.svg: products beside those of the array library, on four machines.

python docs/pictures/speed.py > docs/pictures/speed.svg
"""

import json
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
HERK = "herk over numpy A @ A.conj().T"
BARS = (("A @ B, 16 moduli", "#33669a"), ("A @ B, default", "#7fa8d1"))
BARS += (("A @ A.conj().T, 16 moduli", "#1f7a2e"),)
WIDTH, LEFT, SCALE, HEIGHT = 720, 230, 78, 18


def read(name: str, benchmark: str, n: int) -> list[dict]:
    """Read the lines of a record that tell of products of a size."""
    lines = map(json.loads, (RESULTS / f"{name}.jsonl").read_text().splitlines())
    return [x for x in lines if x["benchmark"] == benchmark and x.get("n") == n]


def of_gpu(name: str, n: int) -> list[float]:
    """Return the three ratios, the default's where magnitudes spread."""
    found = {
        (x["method"], x["num_moduli"]): median(x["seconds"])
        for x in read(name, "figure-speeds", n)
    }
    native, herk = found["native", 0], found["native herk", 0]
    both = native / found["2m", 16], native / found["default", 0]
    return [*both, herk / found["herk", 16]]


def of_cpu(name: str, n: int, lowest: bool = False) -> list[float]:
    """Return the ratios of the last run, or the lowest of all hosts and runs."""
    gemm = [x["ratio_to_numpy"] for x in read(f"gemm-cpu-{name}", "gemm-eager", n)]
    herk = [x["speed"] for x in read(f"rank-k-cpu-{name}", "rank-k", n)]
    herk = [x for x in herk if HERK in x]
    pick = min if lowest else (lambda x: x[-1])
    named = ("2m-16", gemm), ("default", gemm), (HERK, herk)
    return [pick([x[key] for x in lines if key in x]) for key, lines in named]


def draw() -> str:
    """Return the picture as SVG text."""
    rows = {
        "NVIDIA H200, n = 8192": of_gpu("figures-gpu-h200", 8192),
        "Intel Xeon with AMX, n = 4096": of_cpu("amx", 4096, lowest=True),
        "AMD Zen 5, n = 4096": of_cpu("zen5", 4096),
        "AMD Zen 2, no VNNI, n = 2048": of_cpu("zen2", 2048),
    }
    group = len(BARS) * HEIGHT + 14
    size = len(rows) * group
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{size + 70}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for i, (name, ratios) in enumerate(rows.items()):
        y = 10 + i * group
        middle = y + group / 2 - 4
        parts.append(
            f'<text x="{LEFT - 10}" y="{middle}" text-anchor="end">{name}</text>'
        )
        for j, (ratio, (_, colour)) in enumerate(zip(ratios, BARS, strict=True)):
            top, wide = y + j * HEIGHT, ratio * SCALE
            place = f'x="{LEFT}" y="{top}" width="{wide:.1f}" height="{HEIGHT - 3}"'
            parts.append(f'<rect {place} fill="{colour}"/>')
            at = f'x="{LEFT + wide + 6:.1f}" y="{top + HEIGHT - 6}"'
            parts.append(f"<text {at}>{ratio:.2g}</text>")
    one = LEFT + SCALE
    parts.append(
        f'<path d="M{one} 4V{size + 6}" stroke="#222" stroke-dasharray="4 3"/>'
    )
    told = "1: as fast as CuPy's or NumPy's own product, complex128"
    parts.append(f'<text x="{one + 8}" y="{size + 22}">{told}</text>')
    x = LEFT - 150
    for name, colour in BARS:
        place = f'x="{x}" y="{size + 40}" width="14" height="14"'
        parts.append(f'<rect {place} fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="{size + 52}">{name}</text>')
        x += 34 + 8 * len(name)
    return "\n".join([*parts, "</svg>"])


if __name__ == "__main__":
    print(draw())
