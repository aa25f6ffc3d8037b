"""Measure and draw the figures: errors, speeds, rank-k updates, dask, and the paper.

``make figures`` runs this script, which takes less than ten minutes. The results are
JSON lines, which ``--redraw`` draws again; ``--quick`` takes tiny sizes, for a test.

    pip install ".[figures]"
    python benchmarks/figures.py --output figures-output
    python benchmarks/figures.py --redraw benchmarks/results/figures-gpu-h100.jsonl
"""

import os
from pathlib import Path

import twom_dist as td
from benchmarks import device, figures_measure
from benchmarks.figures_draw import read_lines
from benchmarks.figures_page import draw_all
from benchmarks.harness import Report, parse
from benchmarks.statements import check_all


def has_gpu() -> bool:
    """Return True if CuPy finds a device on which our engine runs."""
    from twom_dist.kernels import get_engine

    try:
        get_engine("cuda")
    except td.errors.EngineUnavailableError:
        return False
    return True


def measure_all(path: Path, quick: bool) -> None:
    path.unlink(missing_ok=True)
    report = Report(str(path))
    if has_gpu():
        # Errors and dask are measured on the host.
        place, sizes, sweep = device.gpu(report), [512, 1024, 2048, 4096, 8192], 4096
    else:
        place, sizes, sweep = device.cpu(), [128, 256, 512, 1024, 2048, 4096], 512
    if quick:
        sizes, sweep = [32, 64], 64
    figures_measure.measure_errors(report, 32 if quick else 256)
    sizes = figures_measure.measure_speeds(report, place, sizes, sweep, 360)
    if place.name == "gpu":
        figures_measure.measure_peers(report, sizes)
    most = 1 if quick else 2 * len(os.sched_getaffinity(0))
    workers = [count for count in (1, 2, 4, 8, 16) if count <= most]
    figures_measure.measure_dask(report, 16 if quick else 256, workers)
    for found in check_all():
        report.add("statement", **found._asdict())


def main() -> None:
    args = parse(__doc__, redraw=None, quick=False)
    folder = Path(args.output or "figures-output")
    folder.mkdir(parents=True, exist_ok=True)
    path = Path(args.redraw or folder / "results.jsonl")
    if args.redraw is None:
        measure_all(path, args.quick)
    print(f"drawn: {draw_all(read_lines(path), folder)}")


if __name__ == "__main__":
    main()
