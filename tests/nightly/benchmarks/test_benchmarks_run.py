"""Every benchmark that needs no GPU runs, as small as its options allow."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.places import ROOT

BENCHMARKS = ROOT / "benchmarks"
SMALLEST = {
    "accuracy": ["--size 8"],
    "dask_gpu": ["--engine cpu --scale 64"],
    "files": [
        "--parts jobs --size 64 --repeats 1",
        "--parts tall --rows 4000 --columns 64 --repeats 1",
    ],
    "gemm": ["--parts eager,products,rank_k --sizes 64 --repeats 1"],
    "host": [
        f"--on {device} --sides 64 --calls 5" for device in ("gpu", "vnni", "cpu")
    ],
    "look": ["--sizes 64 --phi 1 --repeats 1 --long 1024"],
    "out_of_core": ["--size 512 --depth 128"],
    "scheduler": ["--tiles 10 --repeats 1"],
    "simulation": [""],
    "shapes": [
        "--parts crossover --dtypes complex128 --shapes 64 --repeats 1",
        "--parts stacks --shapes 32x128 --repeats 1",
        "--parts exact --shapes 64x256 --repeats 1",
    ],
    "stages": ["--sizes 64 --repeats 1", "--sizes 64 --repeats 1 --without-products"],
    "transport": ["--sizes 1 --repeats 1"],
    "workers": ["--parts shared --rows 4000 --columns 64 --repeats 1"],
}


@pytest.mark.parametrize(
    ("name", "options"), [(name, x) for name, given in SMALLEST.items() for x in given]
)
def test_a_benchmark_writes_results(tmp_path, name, options):
    results = tmp_path / "results.jsonl"
    script = BENCHMARKS / f"bench_{name}.py"
    done = subprocess.run(
        [sys.executable, script, *options.split(), "--output", results],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = results.read_text("utf-8").splitlines()
    # What is printed is what is written, in short.
    shown = done.stdout.splitlines()
    for line in lines:
        assert any(x.startswith(json.loads(line)["benchmark"]) for x in shown)
    assert lines


def test_every_benchmark_is_here():
    found = {path.stem.removeprefix("bench_") for path in BENCHMARKS.glob("bench_*.py")}
    assert found - {"gpu"} == SMALLEST.keys()
