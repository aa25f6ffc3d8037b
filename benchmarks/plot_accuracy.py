"""Draw errors against the number of moduli, from the results of `bench_accuracy.py`.

    pip install ".[figures]"
    python benchmarks/plot_accuracy.py benchmarks/results/accuracy-cpu-zen2.jsonl \
        docs/pictures/accuracy.svg

2M for entries (U - 1/2) exp(sigma N(0,1)), with sigma the spread; NumPy's product is
dashed, and a circle marks the default.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

SPREADS = ("0", "0.5", "1", "2", "4")
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677")

Errors = dict[str, dict[str, float]]


def curve(errors: Errors, method: str) -> tuple[list[int], list[float]]:
    """Return the numbers of moduli of a method, and their componentwise errors."""
    words = (name.split() for name in errors)
    counts = [int(x[1]) for x in words if x[0] == method and len(x) == 2]
    return counts, [errors[f"{method} {n}"]["componentwise"] for n in counts]


def draw(found: dict[str, Any]) -> Figure:
    """Draw the last result of each kind of data."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for spread, colour in zip(SPREADS, COLOURS, strict=True):
        result = found[f"phi = {spread}"]
        errors = result["errors"]
        native, own = (errors[x]["componentwise"] for x in ("NumPy", "default"))
        style = {"color": colour, "marker": ".", "label": f"spread {spread}"}
        axes.plot(*curve(errors, "2m"), **style)
        axes.axhline(native, color=colour, linestyle="--", linewidth=1)
        style = {"marker": "o", "markersize": 9, "fillstyle": "none"}
        axes.plot(result["num_moduli"], own, color=colour, **style)
    axes.set_ylabel("largest |dC| / (|A||B|), in units of 2^-53")
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
