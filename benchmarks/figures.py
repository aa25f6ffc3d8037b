"""Measure and draw the figures: errors, speeds, rank-k updates, dask, and the paper.

``make figures`` runs this script, which takes less than ten minutes. The results are
JSON lines, which `--redraw` draws again.

    pip install ".[figures]"
    python benchmarks/figures.py --output figures-output
    python benchmarks/figures.py --redraw benchmarks/results/figures-gpu-h100.jsonl
"""

import argparse
import json
import os
from pathlib import Path

import figures_measure
from figures_draw import draw_all
from harness import Report
from statements import check_all

import twom_dist as td


def has_gpu() -> bool:
    """Return True if CuPy finds a device on which our engine runs."""
    from twom_dist.kernels import get_engine

    try:
        get_engine("cuda")
    except td.errors.EngineUnavailableError:
        return False
    return True


def measure_all(path: Path, quick: bool) -> None:
    """Write all results to a new file."""
    path.unlink(missing_ok=True)
    report = Report(str(path))
    if has_gpu():
        import cupy
        from gpu_device import describe_device

        # Errors and dask are measured on the host.
        both = f"{describe_device()}; {report.common['device']}"
        report.common |= {"device": both, "cupy": cupy.__version__}
        device, sizes = figures_measure.gpu(), [512, 1024, 2048, 4096, 8192]
    else:
        device, sizes = figures_measure.cpu(), [128, 256, 512, 1024, 2048, 4096]
    figures_measure.measure_errors(report, 32 if quick else 256)
    if quick:
        device, sizes = device._replace(sweep=64), [32, 64]
    sizes = figures_measure.measure_speeds(report, device, sizes, 360)
    if device.name == "gpu":
        figures_measure.measure_peers(report, sizes)
    most = 1 if quick else 2 * len(os.sched_getaffinity(0))
    workers = [count for count in (1, 2, 4, 8, 16) if count <= most]
    figures_measure.measure_dask(report, 16 if quick else 256, workers)
    for found in check_all():
        report.add("statement", **found._asdict())


def main() -> None:
    """Measure, or read earlier results, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("figures-output"))
    parser.add_argument("--redraw", type=Path, help="draw these JSON lines")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a test")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    path = args.redraw or args.output / "results.jsonl"
    if args.redraw is None:
        measure_all(path, args.quick)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    print(f"drawn: {draw_all(lines, args.output)}")


if __name__ == "__main__":
    main()
