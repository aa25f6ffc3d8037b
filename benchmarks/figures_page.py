"""Bring docs/figures.md up to date with benchmarks/results: pictures and tables.

The page shows the file of the command on it that draws its pictures again. A table of
all files tells about other machines.

    python benchmarks/figures_page.py
"""

import json
import re
from pathlib import Path

from figures_draw import draw_all
from figures_speeds import Lines, choose_unit, find_rates, list_sizes, name_device
from statements import list_statements, tabulate

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


def read_lines(path: Path) -> Lines:
    """Read a file of results."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


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
