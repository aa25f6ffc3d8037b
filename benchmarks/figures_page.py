"""Show the figures and their numbers: on a page, and in docs/figures.md.

This script brings docs/figures.md up to date with benchmarks/results: pictures and
tables. It shows the file of the command on it that draws its pictures again. A
table of all files tells about other machines.

    python benchmarks/figures_page.py
"""

import re
from collections import defaultdict
from io import BytesIO
from pathlib import Path

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
from benchmarks.statements import DIFFERS, PASS, Statement, list_statements, tabulate

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


def draw_all(lines: Lines, folder: Path) -> Path:
    """Write a PNG for each figure that has lines, and the page; return the page."""
    found, first = defaultdict(list), lines[0]
    for line in lines:
        found[line["benchmark"]].append(line)
    versions = {"Python": first["python"], **first["versions"]}
    versions |= {"CuPy": first["cupy"]} if "cupy" in first else {}
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    shown = [f"{first['device']}; {told}; {first['commit']}"]
    for name, title, needs, draw in FIGURES:
        if found[needs]:
            figure = draw(found[needs])
            about = name_device(first, needs)
            figure.suptitle(about, fontsize="small", color="dimgrey")
            (folder / f"{name}.png").write_bytes(_compress(figure))
            shown += [f"## {title}", f"![{title}]({name}.png)"]
    statements = list_statements(lines)
    verdicts = [each.verdict for each in statements]
    counts = f"{verdicts.count(PASS)} pass, {verdicts.count(DIFFERS)} differ"
    shown += [f"## Statements of the paper: {counts}"]
    shown += [tabulate(Statement._fields, statements)]
    if found["figure-speeds"]:
        shown += ["## Speeds", tabulate_speeds(found["figure-speeds"])]
    page = folder / "index.md"
    page.write_text("\n\n".join([*shown, ""]), "utf-8")
    return page


def _compress(figure: Figure) -> bytes:
    """Make a PNG of 256 colours, of a third of the bytes."""
    drawn, picture = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    Image.open(drawn).convert("RGB").quantize(256).save(picture, "png", optimize=True)
    return picture.getvalue()


def tabulate_speeds(lines: Lines) -> str:
    """Count 8 n^3 operations; 2 n^3 of real products."""
    rates, unit = choose_unit(find_rates(lines))
    sizes, rows = list_sizes(rates), []
    for method, count in dict.fromkeys((method, count) for method, count, _ in rates):
        own = [rates.get((method, count, n)) for n in sizes]
        speeds = ["" if rate is None else f"{rate:.1f}" for rate in own]
        rows.append([name_product(method, lines[0]), str(count or ""), *speeds])
    return tabulate([unit, "moduli", *(f"n = {n}" for n in sizes)], rows)


def compare_machines() -> str:
    """Make a table of the largest product in each file: GPUs first, and what wins."""
    found = map(_row, RESULTS.glob("figures-*.jsonl"))
    ratio, name = _MACHINES.index("`gemm` against it"), len(_MACHINES) - 1
    ordered = sorted(found, key=lambda x: ("-gpu-" not in x[name], -float(x[ratio])))
    return tabulate(_MACHINES, ordered)


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
    statements = tabulate(
        Statement._fields, list_statements(read_lines(RESULTS / name))
    )
    for table in (compare_machines(), statements):
        head = re.escape(table.splitlines()[0])
        page, count = re.subn(
            rf"^{head}\n(\|.*\n)+", lambda _, x=table: x + "\n", page, flags=re.M
        )
        if count != 1:
            raise ValueError(f"{count} tables with the head of\n{table}")
    return page


def main() -> None:
    page = PAGE.read_text("utf-8")
    (name,) = _SHOWN.findall(page)
    PAGE.write_text(renew(page), "utf-8")
    draw_all(read_lines(RESULTS / name), PICTURES).unlink()


if __name__ == "__main__":
    main()
