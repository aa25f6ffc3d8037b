"""Show the figures and their numbers: on a page, and in the docs.

This script brings the docs up to date with benchmarks/results: the pictures of
docs/pictures/figures, and the tables that are made of records.

    python benchmarks/figures_page.py
"""

import re
import shutil
from collections import defaultdict
from collections.abc import Container
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from benchmarks.figures_draw import (
    FIGURES,
    Lines,
    draw_machines,
    find_rates,
    list_sizes,
    name_device,
    name_product,
    read_lines,
)
from benchmarks.figures_tables import (
    RESULTS,
    compare_dask,
    compare_machines,
    join_ratios,
    tabulate_checks,
    tabulate_errors,
    tabulate_statements,
)
from benchmarks.statements import DIFFERS, PASS, Statement, list_statements, tabulate

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures" / "figures"

NAMES = tuple(name for name, *_ in FIGURES)
SHOWN = "figures-gpu-h200.jsonl"
# The others are for those who measure their own machine.
DRAWN, MACHINES = ("sizes", "speed-up", "dask"), "machines.png"
TABLES = {
    DOCS / "figures.md": (compare_machines, tabulate_checks, compare_dask),
    DOCS / "accuracy.md": (tabulate_errors,),
    DOCS / "contributing" / "paper.md": (tabulate_statements,),
}


def draw_all(lines: Lines, folder: Path, names: Container[str] = NAMES) -> Path:
    """Write a PNG for each figure that has lines, and the page; return the page."""
    found, first = defaultdict(list), lines[0]
    for line in lines:
        found[line["benchmark"]].append(line)
    versions = {"Python": first["python"], **first["versions"]}
    versions |= {"CuPy": first["cupy"]} if "cupy" in first else {}
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    shown = [f"{first['device']}; {told}; {first['commit']}"]
    for name, title, needs, draw in FIGURES:
        if found[needs] and name in names:
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
    rates, unit = find_rates(lines), "GFLOP/s"
    if max(rates.values()) >= 10_000:
        rates, unit = {key: rate / 1e3 for key, rate in rates.items()}, "TFLOP/s"
    sizes, rows = list_sizes(rates), []
    for method, count in dict.fromkeys((method, count) for method, count, _ in rates):
        own = [rates.get((method, count, n)) for n in sizes]
        speeds = ["" if rate is None else f"{rate:.1f}" for rate in own]
        rows.append([name_product(method, lines[0]), str(count or ""), *speeds])
    return tabulate([unit, "moduli", *(f"n = {n}" for n in sizes)], rows)


def renew(page: Path) -> str:
    """Replace the tables of a page, found by their heads, by those of the records."""
    text = page.read_text("utf-8")
    for table in (make() for make in TABLES[page]):
        head = rf"(?m)^{re.escape(table.splitlines()[0])}\n(\|.*\n)+"
        text, count = re.subn(head, lambda _, x=table: x + "\n", text)
        if count != 1:
            raise ValueError(f"{count} tables with the head of\n{table}")
    return text


def main() -> None:
    for page in TABLES:
        page.write_text(renew(page), "utf-8")
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir()
    lines = read_lines(RESULTS / SHOWN)
    draw_all(lines, PICTURES, DRAWN).unlink()
    (PICTURES / MACHINES).write_bytes(_compress(draw_machines(join_ratios())))


if __name__ == "__main__":
    main()
