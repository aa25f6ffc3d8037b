"""Draw errors against the number of moduli, from the results of `bench_accuracy.py`.

    pip install ".[figures]"
    python benchmarks/plot_accuracy.py benchmarks/results/accuracy-cpu-zen2.jsonl \
        docs/pictures/accuracy.svg

Left: 2M for entries (U - 1/2) exp(phi N(0,1)) with several phi; NumPy's product is
dashed, and a dot marks the default. Right: all methods for phi = 1.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

PHIS = ("0", "0.5", "1", "2", "4")
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677")
METHODS = {"2m": "o", "3m": "s", "4m": "^", "eisenstein": "D"}

Errors = dict[str, dict[str, float]]


def curve(errors: Errors, method: str) -> tuple[list[int], list[float]]:
    """Return the numbers of moduli of a method, and their componentwise errors."""
    words = (name.split() for name in errors)
    counts = [int(x[1]) for x in words if x[0] == method and len(x) == 2]
    return counts, [errors[f"{method} {n}"]["componentwise"] for n in counts]


def draw(found: dict[str, Any]) -> Figure:
    """Draw both panels from the last result of each kind of data."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for phi, colour in zip(PHIS, COLOURS, strict=True):
        result = found[f"phi = {phi}"]
        errors = result["errors"]
        native, own = (errors[x]["componentwise"] for x in ("NumPy", "default"))
        left.plot(*curve(errors, "2m"), color=colour, marker=".", label=f"phi = {phi}")
        left.axhline(native, color=colour, linestyle="--", linewidth=1)
        style = {"marker": "o", "markersize": 9, "fillstyle": "none"}
        left.plot(result["num_moduli"], own, color=colour, **style)
    errors = found["phi = 1"]["errors"]
    for method, marker in METHODS.items():
        right.plot(
            *curve(errors, method), marker=marker, label=method, fillstyle="none"
        )
    right.axhline(errors["NumPy"]["componentwise"], color="black", linestyle="--")
    left.set_ylabel("largest |dC| / (|A||B|), in units of 2^-53")
    for axes in (left, right):
        axes.set(yscale="log", xlabel="moduli")
        axes.legend()
    return figure


if __name__ == "__main__":
    results, picture = map(Path, sys.argv[1:])
    lines = map(json.loads, results.read_text().splitlines())
    # The same results give the same file, and text stays text.
    mpl.rcParams |= {"svg.hashsalt": "twom_dist", "svg.fonttype": "none"}
    figure = draw({line["kind"]: line for line in lines})
    figure.savefig(picture, metadata={"Date": None})
