"""Draw the figures from their JSON lines."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

Lines = list[dict[str, Any]]
# By method, number of moduli and size.
Rates = dict[tuple[str, int, int], float]

# What multiplies natively.
_LIBRARIES = {"cpu": "NumPy", "gpu": "CuPy"}


def read_lines(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def find_rates(lines: Iterable[dict[str, Any]]) -> Rates:
    """Return GFLOP/s: of 8 n^3 operations, or 2 n^3 of real products."""
    rates = {}
    for line in lines:
        method, count, n = line["method"], line["num_moduli"], line["n"]
        each = 2 if method in ("real", "native real") else 8
        rates[method, count, n] = each * n**3 / median(line["seconds"]) / 1e9
    return rates


def list_sizes(rates: Rates) -> list[int]:
    return sorted({n for _, _, n in rates})


def name_product(method: str, line: dict[str, Any]) -> str:
    """Name the library whose product is the native one."""
    method = method.replace("native herk", "native A A^H")
    return method.replace("native", _LIBRARIES[line["on"]])


def name_device(line: dict[str, Any], benchmark: str) -> str:
    """Name what was measured: the GPU of speeds, if there is one, or the host."""
    device: str = line["device"]
    return device.split("; ")[0 if benchmark == "figure-speeds" else -1]


def _mark_sizes(axes: Any, sizes: list[int]) -> None:
    """Show sizes, and nothing between them, on a logarithmic axis."""
    axes.set(xscale="log")
    axes.set_xticks(sizes, map(str, sizes))
    axes.minorticks_off()


def _panels(count: int, width: float = 4.2) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width * count, 4), layout="constrained")
    axes = figure.subplots(1, count, squeeze=False)[0]
    return figure, axes


def draw_sizes(lines: Lines) -> Figure:
    """Draw how many times as fast as the library's product the others are."""
    rates = find_rates(lines)
    sizes, library = list_sizes(rates), name_product("native", lines[0])
    figure, (axes,) = _panels(1, 7)
    # The others, "performant", take cuBLAS's native product.
    others = {x["method"] for x in lines if x["method"].startswith("cuBLAS eager")}
    shown = {
        ("herk", 16): "herk, 16 moduli",
        ("2m", 16): "gemm, 16 moduli",
        ("default, phi = 0", 0): "gemm, default, spread 0",
        ("default", 0): "gemm, default",
        **{(x, 0): f"{x} (emulation)" for x in others},
    }
    for (method, count), label in shown.items():
        other = "native herk" if method == "herk" else "native"
        points = [
            (n, rates[method, count, n] / rates[other, 0, n])
            for n in sizes
            if (method, count, n) in rates
        ]
        if points:
            style = {"linestyle": ":"} if method in others else {"marker": "o"}
            axes.plot(*zip(*points, strict=True), **style, label=label)
    axes.axhline(1, color="black", linestyle="--", linewidth=1)
    axes.set(xlabel="n", ylabel=f"times as fast as {library}", ylim=(0, None))
    _mark_sizes(axes, sizes)
    axes.legend(fontsize="small")
    return figure


def draw_machines(found: dict[str, dict[str, dict[int, float]]]) -> Figure:
    """Draw the ratios of machines by size: a panel for gemm, another for herk."""
    figure, panels = _panels(2, 5)
    titles = ("`gemm`, 16 moduli", "`herk`, 16 moduli")
    for axes, title in zip(panels, titles, strict=True):
        for machine, ratios in found.items():
            own = sorted(ratios[title].items())
            style = {"marker": "o", "markersize": 4, "label": machine}
            axes.plot(*zip(*own, strict=True), **style)
        axes.axhline(1, color="black", linestyle="--", linewidth=1)
        axes.set(title=title.replace("`", ""), xlabel="n", ylim=(0, None))
        _mark_sizes(axes, sorted({n for x in found.values() for n in x[title]}))
    panels[0].set_ylabel("times as fast as the library's own product")
    panels[0].legend(fontsize="small")
    return figure


def draw_heat_map(lines: Lines) -> Figure:
    """Draw the speed-up of 2M over the native product by size and number of moduli."""
    rates = find_rates(lines)
    sizes = list_sizes(rates)
    counts = sorted({count for name, count, _ in rates if name == "2m"})
    native = [rates["native", 0, n] for n in sizes]
    own = [[rates["2m", count, n] for n in sizes] for count in counts]
    table = [[x / y for x, y in zip(row, native, strict=True)] for row in own]
    figure, (axes,) = _panels(1, 6)
    # Centred on 1: what is slower is red.
    most = max(2.0, *(max(row) for row in table))
    norm = TwoSlopeNorm(1, 0, most)
    style = {"origin": "lower", "aspect": "auto", "cmap": "RdBu", "norm": norm}
    image = axes.imshow(table, **style)
    axes.set(xlabel="n", ylabel="moduli")
    axes.set_xticks(range(len(sizes)), map(str, sizes))
    axes.set_yticks(range(len(counts)), map(str, counts))
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            colour = "black" if 0.25 < norm(value) < 0.75 else "white"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour)
    library = name_product("native", lines[0])
    figure.colorbar(image, label=f"speed of 2m over that of {library}")
    return figure


def draw_dask(lines: Lines) -> Figure:
    """Draw bytes moved and peak memory beside their plans, and times."""
    figure, (moved, peak, times) = _panels(3)
    products = ("gemm", "herk", "da.matmul")
    for name, colour in zip(products, ("C0", "C1", "C2"), strict=True):
        own = [line for line in lines if line["product"] == name]
        workers = [line["workers"] for line in own]
        for axes, figures, planned in (
            (moved, "bytes_moved", "planned_bytes"),
            (peak, "peak_managed_bytes", "planned_peak"),
        ):
            values = [line[figures] / 2**20 for line in own]
            axes.plot(workers, values, color=colour, marker="o", label=name)
            if planned in own[0]:
                values = [line[planned] / 2**20 for line in own]
                style = {"linestyle": "--", "marker": "x", "label": f"{name}, planned"}
                axes.plot(workers, values, color=colour, **style)
        seconds = [median(line["seconds"]) for line in own]
        times.plot(workers, seconds, color=colour, marker="o", label=name)
    tiles = f"8 x 8 tiles of {lines[0]['tile']}"
    moved.set(ylabel="MiB moved", title=tiles)
    peak.set(ylabel="MiB on the fullest worker")
    times.set(ylabel="seconds")
    counts = sorted({line["workers"] for line in lines})
    for axes in (moved, peak, times):
        axes.set(xlabel="workers")
        _mark_sizes(axes, counts)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize="small")
    return figure


# File name, title, benchmark whose lines the figure shows, and function that draws it.
FIGURES: tuple[tuple[str, str, str, Callable[[Lines], Figure]], ...] = (
    ("sizes", "Speed against size", "figure-speeds", draw_sizes),
    ("speed-up", "2M against the native product", "figure-speeds", draw_heat_map),
    ("dask", "On dask: traffic, memory and time", "figure-dask", draw_dask),
)
