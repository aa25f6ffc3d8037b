"""Print what an H200 was predicted to do beside what has been measured.

Predictions are of complex128 with 16 moduli, but for the default; those of stacks are
of 256 matrices. Of several measurements the last one is shown.

    python benchmarks/predicted.py FILE ...
"""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

# By name, with its unit, and by n. Of gemm and its stages: what was measured before
# rows were read once and launches merged, less what that spares by its bytes at 4.25
# TB/s. Of 256 x 128: if L2 limits squares of 128. Of the default and of stacks: goals.
PREDICTED = {
    "gemm, TF/s": {512: 15, 1024: 60, 2048: 116, 4096: 154, 8192: 180, 16384: 173},
    "encode, ms": {1024: 0.035, 2048: 0.12, 4096: 0.48, 8192: 1.9, 16384: 7.9},
    "decode and fill, ms": {1024: 0.02, 2048: 0.06, 4096: 0.27, 8192: 1.1},
    "mma.sync, 256 x 128 over 128 x 128": {4096: 1.2, 8192: 1.3},
    "default, Gaussian, over cupy.matmul": {1024: 0.8, 2048: 1.5, 4096: 2.3, 8192: 3},
    "default, phi = 1, over cupy.matmul": {1024: 0.6, 2048: 1.2, 4096: 1.85, 8192: 2.8},
    "stack, given, over cupy.matmul": {64: 0.25, 256: 0.6, 512: 1.0},
    "stack, default, over cupy.matmul": {64: 0.12, 256: 0.45, 512: 0.85},
    "host's time of gemm, us": {64: 33},
    "integers.herk of pairs, PF/s": {64: 0.92, 4096: 2.1},
    "a level of Winograd's form, over none": {24576: 1.2},
}
_KINDS = {"complex Gaussian": "Gaussian", "phi = 1": "phi = 1"}


def measured(line: dict[str, Any]) -> Iterator[tuple[str, int, float]]:
    """List what a result says of the predictions: name, n and value."""
    kind, n = line["benchmark"], line.get("n", 0)
    if kind == "gpu":
        yield "gemm, TF/s", n, line["tflops"]["2m"]
        stages = line["milliseconds"]["2m"]
        yield "encode, ms", n, stages["norms"] + stages["encode"]
        yield "decode and fill, ms", n, stages["decode"] + stages["fill"]
        wide, square = (line["tflops"][f"2m, {x}"] for x in ("mma256", "mma"))
        yield "mma.sync, 256 x 128 over 128 x 128", n, wide / square
    elif kind == "look" and line["kind"] in _KINDS and "cupy.matmul" in line["seconds"]:
        both = (line["seconds"][x] for x in ("cupy.matmul", "default"))
        ratio = median(y / x for y, x in zip(*both, strict=True))
        name = f"default, {_KINDS[line['kind']]}, over cupy.matmul"
        yield name, line["shape"][0], ratio
    elif kind == "gpu-stacks" and line["routine"] == "gemm":
        for ours, name in (("normwise", "given"), ("default", "default")):
            ratio = line["over_matmul"][f"stack, {ours}"]
            yield f"stack, {name}, over cupy.matmul", line["shape"][-1], ratio
    elif kind == "gpu-host":
        yield "host's time of gemm, us", n, line["host"]["gemm"]["microseconds"]
    elif kind == "gpu-samples":
        yield "integers.herk of pairs, PF/s", n, line["tflops"]["herk"] / 1e3
    elif kind == "gpu-winograd":
        ratio = line["over_none"]["one level"]
        yield "a level of Winograd's form, over none", n, ratio


def main(files: list[str]) -> None:
    found = {}
    for line in (x for y in files for x in Path(y).read_text("utf-8").splitlines()):
        with suppress(KeyError):  # older results have other fields
            for name, n, value in measured(json.loads(line)):
                found[name, n] = value
    print(f"{'':40}{'n':>8}{'predicted':>11}{'measured':>10}")
    for name, by_size in PREDICTED.items():
        for n, value in by_size.items():
            own = found.get((name, n))
            told = "-" if own is None else f"{own:.3g}"
            print(f"{name:40}{n:8}{value:11.3g}{told:>10}")


if __name__ == "__main__":
    main(sys.argv[1:])
