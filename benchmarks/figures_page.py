"""Show the figures and their numbers: on a page of HTML, and in docs/figures.md.

This script brings docs/figures.md up to date with benchmarks/results: pictures and
tables. The page shows the file of the command on it that draws its pictures again. A
table of all files tells about other machines.

    python benchmarks/figures_page.py
"""

import base64
import re
from collections import defaultdict
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from benchmarks.figures_draw import (
    FIGURES,
    Lines,
    choose_unit,
    find_rates,
    list_sizes,
    name_device,
    name_product,
    read_lines,
)
from benchmarks.statements import DIFFERS, PASS, list_statements, tabulate

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"
PAGE, PICTURES = DOCS / "figures.md", DOCS / "pictures" / "figures"

_MACHINES = (
    "machine",
    "n",
    "`gemm`, 16 moduli",
    "native product",
    "`gemm` against it",
    "by default",
    "`herk` against `gemm`",
    "from",
)
_SHOWN = re.compile(r"--redraw benchmarks/results/(figures-[\w-]+\.jsonl)")


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto}"
    "img{max-width:100%}table{border-collapse:collapse;margin:1em 0}"
    "td,th{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}"
)


# --- a page of HTML -------------------------------------------------------------------


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


# --- docs/figures.md ------------------------------------------------------------------


def compare_machines() -> str:
    """Make a table of the largest product in each file: GPUs first, and what wins."""
    found = map(_row, RESULTS.glob("figures-*.jsonl"))
    ratio, name = _MACHINES.index("`gemm` against it"), len(_MACHINES) - 1
    ordered = sorted(found, key=lambda x: ("-gpu-" not in x[name], -float(x[ratio])))
    rows = [_MACHINES, ("---",) * len(_MACHINES), *ordered]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(path: Path) -> tuple[str, ...]:
    lines = [x for x in read_lines(path) if x["benchmark"] == "figure-speeds"]
    rates, unit = choose_unit(find_rates(lines))
    n = list_sizes(rates)[-1]
    gemm, herk = rates["2m", 16, n], rates["herk", 16, n]
    native, default = rates["native", 0, n], rates["default", 0, n]
    return (
        name_device(lines[0], "figure-speeds"),
        str(n),
        f"{gemm:.1f} {unit}",
        f"{native:.1f} {unit}",
        f"{gemm / native:.2f}",
        f"{default / native:.2f}",
        f"{herk / gemm:.2f}",
        f"[{path.name}](../benchmarks/results/{path.name})",
    )


def renew(page: str) -> str:
    """Put the tables of the results in place of those of a page."""
    (name,) = _SHOWN.findall(page)
    statements = tabulate(list_statements(read_lines(RESULTS / name)))
    for table in (compare_machines(), statements):
        head = re.escape(table.splitlines()[0])
        page, count = re.subn(
            rf"^{head}\n(\|.*\n)+", lambda _, x=table: x + "\n", page, flags=re.M
        )
        if count != 1:
            raise ValueError(f"{count} tables with the head of\n{table}")
    return page


def main() -> None:
    """Renew the page and its pictures."""
    page = PAGE.read_text("utf-8")
    (name,) = _SHOWN.findall(page)
    PAGE.write_text(renew(page), "utf-8")
    draw_all(read_lines(RESULTS / name), PICTURES).unlink()


if __name__ == "__main__":
    main()
