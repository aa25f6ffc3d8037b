"""Draw errors against the number of moduli, from the results of `bench_accuracy.py`.

    pip install ".[figures]"
    python benchmarks/plot_accuracy.py benchmarks/results/accuracy-cpu-zen2.jsonl \
        docs/pictures/accuracy.svg

Left: 2M for entries (U - 1/2) exp(phi N(0,1)) with several phi; NumPy's product is
dashed, and a dot marks the default. Right: all methods for phi = 1.
"""

import argparse
import json
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
    counts = [
        int(words[1])
        for words in map(str.split, errors)
        if len(words) == 2 and words[0] == method
    ]
    return counts, [errors[f"{method} {n}"]["componentwise"] for n in counts]


def draw(found: dict[str, Any]) -> Figure:
    """Draw both panels from the last result of each kind of data."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for phi, colour in zip(PHIS, COLOURS, strict=True):
        result = found[f"phi = {phi}"]
        errors = result["errors"]
        left.plot(*curve(errors, "2m"), color=colour, marker=".", label=f"phi = {phi}")
        native, own = errors["NumPy"], errors["default"]
        left.axhline(native["componentwise"], color=colour, linestyle="--", linewidth=1)
        left.plot(
            result["num_moduli"],
            own["componentwise"],
            **{"color": colour, "marker": "o", "markersize": 9, "fillstyle": "none"},
        )
    errors = found["phi = 1"]["errors"]
    for method, marker in METHODS.items():
        counts, values = curve(errors, method)
        right.plot(counts, values, marker=marker, label=method, fillstyle="none")
    right.axhline(errors["NumPy"]["componentwise"], color="black", linestyle="--")
    left.set_ylabel("largest |dC| / (|A||B|), in units of 2^-53")
    for axes in (left, right):
        axes.set_yscale("log")
        axes.set_xlabel("moduli")
        axes.legend()
    return figure


def main() -> None:
    """Read JSON lines, write a picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path)
    args = parser.parse_args()
    lines = map(json.loads, args.results.read_text().splitlines())
    found = {line["kind"]: line for line in lines}
    # The same results give the same file, and text stays text.
    mpl.rcParams |= {"svg.hashsalt": "twom_dist", "svg.fonttype": "none"}
    draw(found).savefig(args.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
