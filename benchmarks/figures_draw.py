"""Draw the figures from their JSON lines: PNG files, and a page that shows them."""

import base64
from collections import defaultdict
from collections.abc import Callable
from html import escape
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

from figures_measure import AS_DOUBLE, METHODS
from figures_speeds import (
    Lines,
    choose_unit,
    find_rates,
    list_sizes,
    name_device,
    name_product,
)
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image
from statements import DIFFERS, PASS, list_statements

from twom_dist.moduli import residue_system

_MARKERS = {"2m": "o", "3m": "s", "hybrid": "^", "eisenstein": "D", "real": "v"}
_OTHERS = ("native", "cuBLAS")
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto}"
    "img{max-width:100%}table{border-collapse:collapse;margin:1em 0}"
    "td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}"
)


def draw_all(lines: Lines, folder: Path) -> Path:
    """Write a PNG for each figure that has lines, and the page; return the page."""
    found = defaultdict(list)
    for line in lines:
        found[line["benchmark"]].append(line)
    parts = []
    for name, title, needs, draw in FIGURES:
        if not found[needs]:
            continue
        figure = draw(found[needs])
        figure.suptitle(name_device(lines[0], needs), fontsize="small", color="dimgrey")
        picture = _compress(figure)
        (folder / f"{name}.png").write_bytes(picture)
        data = base64.b64encode(picture).decode()
        parts += [
            f"<h2>{escape(title)}</h2>",
            f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">',
        ]
    parts += _tabulate_statements(lines)
    parts += _tabulate_speeds(found["figure-speeds"])
    page = folder / "index.html"
    page.write_text(_wrap(lines[0], parts), "utf-8")
    return page


def _compress(figure: Figure) -> bytes:
    """Make a PNG of 256 colours, of a third of the bytes."""
    drawn, picture = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    Image.open(drawn).convert("RGB").quantize(256).save(picture, "png", optimize=True)
    return picture.getvalue()


def _wrap(line: dict[str, Any], parts: list[str]) -> str:
    cupy = {"cupy": line["cupy"]} if "cupy" in line else {}
    found = {**line["versions"], **cupy}
    versions = ", ".join(f"{name} {x}" for name, x in found.items())
    about = f"{line['device']}; Python {line['python']}, {versions}; {line['commit']}"
    head = "<meta charset='utf-8'><title>twom_dist: figures</title>"
    body = f"<h1>twom_dist: figures</h1><p>{escape(about)}</p>{''.join(parts)}"
    return (
        f"<!doctype html><html lang='en'><head>{head}<style>{_STYLE}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def _panels(count: int, width: float = 4.2) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width * count, 4), layout="constrained")
    axes = figure.subplots(1, count, squeeze=False)[0]
    return figure, axes


def draw_errors(lines: Lines) -> Figure:
    """Draw errors against moduli, with a panel for each spread of the data."""
    phis = sorted({line["phi"] for line in lines})
    figure, panels = _panels(len(phis))
    for axes, phi in zip(panels, phis, strict=True):
        own = [line for line in lines if line["phi"] == phi]
        for method in METHODS:
            points = [
                (x["num_moduli"], x["error"]) for x in own if x["method"] == method
            ]
            style = {"marker": _MARKERS[method], "fillstyle": "none", "label": method}
            axes.plot(*zip(*points, strict=True), **style)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        native = next(
            x["error"] for x in own if (x["method"], x["kind"]) == ("native", "complex")
        )
        axes.axhline(native, color="black", linestyle="--", label="NumPy")
        axes.set(
            yscale="log", xlabel="moduli", title=f"phi = {phi:g}, n = {own[0]['n']}"
        )
    panels[0].set_ylabel("largest |dC| / (|A||B|)")
    panels[-1].legend()
    return figure


def draw_sizes(lines: Lines) -> Figure:
    """Draw speed against size at double precision."""
    rates, unit = choose_unit(find_rates(lines))
    figure, (axes,) = _panels(1, 7)
    shown = [*AS_DOUBLE.items(), ("default", 0), ("herk", 16), ("default, phi = 0", 0)]
    methods = {x["method"] for x in lines}
    shown += [(x, 0) for x in sorted(methods) if x.startswith("native")]
    shown += [(x, 0) for x in sorted(methods) if x.startswith("cuBLAS")]
    dashes = iter(("--", ":", "-.") * 2)
    for method, count in shown:
        points = [
            (n, rates[method, count, n])
            for n in list_sizes(rates)
            if (method, count, n) in rates
        ]
        if not points:
            continue
        style = {"marker": _MARKERS.get(method, "."), "fillstyle": "none"}
        if method.startswith(_OTHERS):
            colour = "black" if method.startswith("native") else "C8"
            style = {"linestyle": next(dashes), "color": colour}
        label = f"{method} {count}" if count else name_product(method, lines[0])
        axes.plot(*zip(*points, strict=True), **style, label=label)
    axes.set(xscale="log", yscale="log", xlabel="n", ylabel=unit)
    axes.set_xticks(list_sizes(rates), map(str, list_sizes(rates)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    # Ten lines leave no room for the legend among them.
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_precisions(lines: Lines) -> Figure:
    """Draw speed against precision, at the size measured with most moduli."""
    rates, unit = choose_unit(find_rates(lines))
    n = max(list_sizes(rates), key=[n for *_, n in rates].count)
    figure, (axes,) = _panels(1, 7)
    for method in METHODS:
        points = [
            (residue_system(method, count).modulus_bits, rate)
            for (name, count, size), rate in rates.items()
            if name == method and size == n and count
        ]
        axes.plot(*zip(*points, strict=True), marker=_MARKERS[method], label=method)
    for name, style in (("native", "--"), ("native real", ":")):
        label = name_product(name, lines[0])
        axes.axhline(rates[name, 0, n], color="black", linestyle=style, label=label)
    axes.set(xlabel="bits of the product of the moduli", ylabel=unit, title=f"n = {n}")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    return figure


def draw_heat_map(lines: Lines) -> Figure:
    """Draw the speed-up of 2M over the native product by size and number of moduli."""
    rates = find_rates(lines)
    sizes = list_sizes(rates)
    counts = sorted({count for name, count, _ in rates if name == "2m"})
    table = [
        [rates["2m", count, n] / rates["native", 0, n] for n in sizes]
        for count in counts
    ]
    figure, (axes,) = _panels(1, 6)
    image = axes.imshow(table, origin="lower", aspect="auto", cmap="viridis")
    axes.set(xlabel="n", ylabel="moduli")
    axes.set_xticks(range(len(sizes)), map(str, sizes))
    axes.set_yticks(range(len(counts)), map(str, counts))
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            colour = "black" if image.norm(value) > 0.6 else "white"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour)
    library = name_product("native", lines[0])
    figure.colorbar(image, label=f"speed of 2m over that of {library}")
    return figure


def draw_updates(lines: Lines) -> Figure:
    """Draw the speed of herk and syrk against gemm."""
    rates = find_rates(lines)
    sizes = list_sizes(rates)
    figure, (axes,) = _panels(1, 6)
    for name in ("herk", "syrk"):
        speed = [rates[name, 16, n] / rates["2m", 16, n] for n in sizes]
        axes.plot(sizes, speed, marker="o", label=f"{name} over gemm, 16 moduli")
    native = [rates["herk", 16, n] / rates["native herk", 0, n] for n in sizes]
    label = f"herk over {name_product('native herk', lines[0])}"
    axes.plot(sizes, native, "--", marker="s", label=label)
    axes.set(xscale="log", xlabel="n", ylabel="times as fast")
    axes.set_ylim(bottom=0)
    axes.set_xticks(sizes, map(str, sizes))
    axes.minorticks_off()
    axes.legend()
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
        axes.set(xscale="log", xlabel="workers")
        axes.set_xticks(counts, map(str, counts))
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.legend(fontsize="small")
    return figure


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = [[f"<th>{escape(x)}</th>" for x in heads]]
    lines += [[f"<td>{escape(x)}</td>" for x in row] for row in rows]
    return ["<table>", *(f"<tr>{''.join(x)}</tr>" for x in lines), "</table>"]


def _tabulate_statements(lines: Lines) -> list[str]:
    found = list_statements(lines)
    if not found:
        return []
    verdicts = [each.verdict for each in found]
    told = f"{verdicts.count(PASS)} pass, {verdicts.count(DIFFERS)} differ"
    title = f"<h2>Statements of the paper: {told}</h2>"
    return [title, *_table(["statement", "found", "verdict"], [[*x] for x in found])]


def _tabulate_speeds(lines: Lines) -> list[str]:
    if not lines:
        return []
    rates, unit = choose_unit(find_rates(lines))
    sizes = list_sizes(rates)
    rows = []
    for method, count in dict.fromkeys((method, count) for method, count, _ in rates):
        own = [rates.get((method, count, n)) for n in sizes]
        speeds = ["" if rate is None else f"{rate:.1f}" for rate in own]
        rows.append([name_product(method, lines[0]), str(count or ""), *speeds])
    title = f"<h2>Speeds, {unit} (8 n^3 operations; real products 2 n^3)</h2>"
    return [title, *_table(["method", "moduli", *(f"n = {n}" for n in sizes)], rows)]


# File name, title, benchmark whose lines the figure shows, and function that draws it.
FIGURES: tuple[tuple[str, str, str, Callable[[Lines], Figure]], ...] = (
    ("errors", "Error against moduli", "figure-errors", draw_errors),
    ("sizes", "Speed against size, as exact as double", "figure-speeds", draw_sizes),
    ("precisions", "Speed against precision", "figure-speeds", draw_precisions),
    ("speed-up", "2M against the native product", "figure-speeds", draw_heat_map),
    ("updates", "Rank-k updates", "figure-speeds", draw_updates),
    ("dask", "On dask: traffic, memory and time", "figure-dask", draw_dask),
)
