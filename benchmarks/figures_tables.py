"""Make the tables of the docs from benchmarks/results."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.statements import Statement, list_statements, tabulate

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
# The title of a method with a number of moduli, and the product it is compared with.
_FIGURES = {
    ("2m", 16): ("`gemm`, 16 moduli", "native"),
    ("default", 0): ("`gemm`, default", "native"),
    ("default, phi = 0", 0): ("`gemm`, default, spread 0", "native"),
    ("herk", 16): ("`herk`, 16 moduli", "native herk"),
}
_EAGER = {"2m-16": "`gemm`, 16 moduli", "default": "`gemm`, default"}
_HERK = {
    "herk over numpy A @ A.conj().T": "`herk`, 16 moduli",
    "herk over scipy zherk": "`herk`, relative to SciPy's `zherk`",
}
# Machines and their files. Of several hosts of a kind the slowest one counts.
_MACHINES = {
    "NVIDIA H200": ("figures-gpu-h200",),
    "NVIDIA H100": ("figures-gpu-h100",),
    "Xeon, AMX, 2 cores": ("gemm-cpu-amx", "rank-k-cpu-amx"),
    "Xeon, AMX, 8 cores": ("figures-cpu-xeon",),
    "EPYC Zen 5, 2 cores": ("gemm-cpu-zen5", "rank-k-cpu-zen5"),
    "EPYC Zen 4, 2 cores": ("figures-cpu-zen4", "gemm-cpu-zen4", "rank-k-cpu-zen4"),
    "EPYC Zen 2, no VNNI": ("gemm-cpu-zen2", "rank-k-cpu-zen2"),
}
_SEVERAL_HOSTS = ("gemm-cpu-amx", "rank-k-cpu-amx")
_EARLIER_ENGINE = ("rank-k-cpu-zen4", 4096)
_INPUTS = {"graph": "computed by tasks", "persisted": "in memory"}
_SIZES = (512, 1024, 2048, 4096, 8192)
_DATA = {
    "D = 10^+-6": "columns of A times D, rows of B divided by D, D = 10^±6",
    "D = 10^+-100": "the same, D = 10^±100",
    "sparse": "sparse, 1 of 20 entries not zero",
    "graded": "entries that decay over 12 decades",
    "banded": "banded, nine diagonals",
    "mixed units": "mixed units, three along k",
    "one large entry a row": "one large entry per row",
    "cancelling": "sums whose halves cancel to 1e-8",
}


def read(name: str) -> list[dict[str, Any]]:
    """Read the lines of a record."""
    text = (RESULTS / f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def find_ratios(name: str) -> dict[str, dict[int, float]]:
    """Find how many times as fast as the library's products ours are, by size."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    seconds = {}
    for line in read(name):
        kind, n = line["benchmark"], line.get("n")
        if kind == "figure-speeds":
            seconds[line["method"], line["num_moduli"], n] = median(line["seconds"])
        elif kind == "gemm-eager" and "by 256 bits" not in line["device"]:
            ratios = line["ratio_to_numpy"]
            for key, title in _EAGER.items() if "default" in ratios else ():
                found[title][n].append(ratios[key])
        elif kind == "rank-k":
            for key, title in _HERK.items():
                if key in line["speed"] and (name, n) != _EARLIER_ENGINE:
                    found[title][n].append(line["speed"][key])
    for (*key, n), own in seconds.items():
        if tuple(key) in _FIGURES:
            title, other = _FIGURES[tuple(key)]
            found[title][n].append(seconds[other, 0, n] / own)
    pick = min if name in _SEVERAL_HOSTS else (lambda runs: runs[-1])
    return {x: {n: pick(y) for n, y in runs.items()} for x, runs in found.items()}


def join_ratios() -> dict[str, dict[str, dict[int, float]]]:
    """Return the ratios of all files of each machine, in the order of the titles."""
    titles = dict.fromkeys(x for x, _ in _FIGURES.values()) | dict.fromkeys(
        _HERK.values()
    )
    found = {}
    for machine, files in _MACHINES.items():
        own: dict[str, dict[int, float]] = {title: {} for title in titles}
        for title, ratios in (
            (x, y) for name in files for x, y in find_ratios(name).items()
        ):
            own[title] |= ratios
        found[machine] = {title: ratios for title, ratios in own.items() if ratios}
    return found


def compare_machines() -> str:
    """Make a table of the speeds beside those of CuPy's and NumPy's own products."""
    rows = []
    for machine, found in join_ratios().items():
        links = (f"../benchmarks/results/{name}.jsonl" for name in _MACHINES[machine])
        first = f"[{machine}]({next(links)})"
        first += "".join(f" [+]({path})" for path in links)
        for title, own in found.items():
            cells = [f"{own[n]:.2f}" if n in own else "" for n in _SIZES]
            rows.append([first, title, *cells])
            first = ""
    heads = [f"n = {n}" for n in _SIZES]
    return tabulate(["machine", "product in complex128", *heads], rows)


def tabulate_checks() -> str:
    """Make a table of the time of the default over that of as many given moduli."""
    cells: dict[str, dict[str, float]] = defaultdict(dict)
    moduli: dict[str, set[int]] = defaultdict(set)
    heads = []
    for name, unit in (("zen5", "VNNI"), ("zen2", "no VNNI")):
        lines = [x for x in read(f"look-cpu-{name}") if x["relative_to"] == "given"]
        # Data of a wide range were checked in another way then.
        lines = [x for x in lines if x.get("closed_by") != "pairs"]
        for line in sorted(lines, key=lambda x: x["shape"]):
            head = f"{unit}, n = {line['shape'][0]}"
            heads += [head] * (head not in heads)
            cells[line["kind"]][head] = line["ratio"]
            moduli[line["kind"]].add(line["num_moduli"])
    rows = [
        [
            _name(kind),
            _span(moduli[kind]),
            *(f"{own[x]:.2f}" if x in own else "" for x in heads),
        ]
        for kind, own in cells.items()
    ]
    return tabulate(["data", "moduli", *heads], rows)


def _name(kind: str) -> str:
    return _DATA.get(kind, kind.replace("phi = ", "spread "))


def _span(numbers: Iterable[int]) -> str:
    return " to ".join(map(str, sorted({min(numbers), max(numbers)})))


def tabulate_errors() -> str:
    """Make a table of the largest errors, by kind of data."""
    heads = ["data", "NumPy", "default", "moduli by default", "16 moduli"]
    rows = []
    for line in read("accuracy-cpu-zen2"):
        errors = {x: y["componentwise"] for x, y in line["errors"].items()}
        if line["kind"] in ("D = 10^+-1", "D = 10^+-2", "D = 10^+-4"):
            continue
        default, given = f"{errors['default']:.2g}", f"{errors['2m 16']:.2g}"
        native, count = f"{errors['NumPy']:.2g}", str(line["num_moduli"])
        rows.append([_name(line["kind"]), native, default, count, given])
    return tabulate(heads, rows)


def compare_dask() -> str:
    """Make a table of time, memory and traffic, those of dask's own product being 1."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for machine, name in (("Zen 5", "zen5"), ("Zen 4", "zen4")):
        last = {
            x["inputs"]: x
            for x in read(f"gemm-cpu-{name}")
            if x["benchmark"] == "gemm-dask" and isinstance(x["ratio_to_matmul"], dict)
        }
        for inputs, told in _INPUTS.items():
            line = last[inputs]
            time, moved = 1 / line["ratio_to_matmul"]["zgemm"], line["bytes_moved"]
            own = found[f"`gemm`, n = 2048, tiles of 256, four workers, inputs {told}"]
            own["machines"].append(machine)
            own["time"].append(f"{time:.2f}")
            own["traffic"].append(f"{moved['zgemm'] / moved['da.matmul']:.2f}")
    for machine, name in (("Xeon", "xeon"), ("Zen 4", "zen4")):
        for line in read(f"tall-cpu-{name}"):
            what, time, memory = _beside_dask(line)
            own = found[what.format(*line["shape"])]
            own["machines"].append(machine)
            own["time"].append(f"{time:.2f}")
            own["memory"] += [f"{memory:.2f}"] * (memory > 0)
    columns = "machines", "time", "memory", "traffic"
    rows = [
        [what, *(", ".join(own[x]) for x in columns)] for what, own in found.items()
    ]
    return tabulate(
        ["product in complex128", "machines", "time", "peak memory", "traffic"], rows
    )


def _beside_dask(line: dict[str, Any]) -> tuple[str, float, float]:
    """Return a product, and its time and memory (0 if unknown) over those of dask's."""
    kind = line["benchmark"]
    if kind == "tall-workers":
        what = "`herk(A, op='C')`, A of {} x {} in memory, two workers"
        return what, 1 / line["over_dask"]["shared"], 0
    if kind == "memory":
        own = line["peak_bytes"]
        what = "`gemm`, {} x {}, k = {}, two workers"
        return what, 1 / line["over_dask"], own["gemm"] / own["dask"]
    name = "herk" if kind == "tall-file" else "gemm"
    what = {
        "herk": "`herk(A, op='C')`, A of {} x {} in a file, 2 GiB",
        "gemm": "`gemm(A, B).sum()`, {} x {}, k = {}, 1.5 GiB",
    }[name]
    times, own = line["median_seconds"], line["peak_process_bytes"]
    return what, times[name] / times["dask"], own[name] / own["dask"]


def tabulate_statements() -> str:
    """Make a table of the paper's statements and what was found here."""
    found = list_statements(read("figures-gpu-h200"))
    return tabulate(Statement._fields[:2], [each[:2] for each in found])
