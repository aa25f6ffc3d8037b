"""Processes of their own: imports, forks, threads, edited sources, functions passed."""

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import twom_dist
from tests.support.cases import cases
from tests.support.places import ROOT

# A child that forks beside a thread which holds a lock, then one of threads that work.
# Each item keeps its thread until all have one.
THREADS = """
import os, signal, threading, time
from twom_dist.kernels.cpu import buffers
from twom_dist.kernels.cpu.threads import limit_threads, run_each

def use_threads(count):
    barrier = threading.Barrier(count, timeout=60)
    with limit_threads(count):
        run_each(lambda _: barrier.wait(), range(count))

def fork(act):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        act()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def hold():
    with buffers.kept._lock:
        held.set()
        done.wait()

held, done = threading.Event(), threading.Event()
threading.Thread(target=hold).start()
held.wait()
fork(lambda: buffers.empty((1 << 21,), "u1"))
done.set()
for count in (2, 5, 3, 10, 7, 4):
    use_threads(count)
deadline = time.monotonic() + 60
while threading.active_count() > 10 and time.monotonic() < deadline:
    time.sleep(0.01)  # the threads of smaller pools end by themselves
assert threading.active_count() == 10, threading.enumerate()
fork(lambda: use_threads(4))
"""


def test_a_forked_child_has_locks_and_threads_of_its_own():
    """And there are no more threads than any product has asked for."""
    output_of(THREADS, ROOT)


PACKAGE = Path(twom_dist.__file__).parent
# A kernel that compiles in a moment around a function of another file.
OUTER = """
import numpy as np
from twom_dist.kernels.cpu.jit import kernel
from twom_dist.kernels.cpu.decode.digits import mirror_digits

@kernel
def outer(d, v):
    mirror_digits(d, 16.0, v)

d = np.array([[3.0]])
outer(d, np.array([[-1.0]]))
print(d[0, 0], sum(outer.stats.cache_hits.values()))
"""


def test_an_edited_function_of_another_file_is_compiled_anew(tmp_path):
    copy = tmp_path / "twom_dist"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "kernels" / "cpu" / "outer.py").write_text(OUTER, "utf-8")
    environment = {x: y for x, y in os.environ.items() if x != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    def run():
        command = [sys.executable, "-m", "twom_dist.kernels.cpu.outer"]
        given = {"cwd": tmp_path, "env": environment, "capture_output": True}
        out = subprocess.run(command, **given, check=True)
        digit, hits = out.stdout.split()
        return float(digit), int(hits)

    assert [run(), run()] == [(3.0, 0), (3.0, 1)]
    digits = copy / "kernels" / "cpu" / "decode" / "digits.py"
    text, written = digits.read_text("utf-8"), digits.stat().st_mtime_ns
    edited = text.replace("digit = carry - d[t, c]", "digit = carry + d[t, c]")
    assert len(edited) == len(text)
    assert edited != text
    digits.write_text(edited, "utf-8")
    os.utime(digits, ns=(written, written))  # as installing a wheel does
    assert run() == (-3.0, 0)


# What `import twom_dist` leaves alone, so that it is quick and works everywhere.
NOT_LOADED = ("cupy", "llvmlite", "numba", "zarr", "h5py", "distributed", "xarray")


def output_of(code, folder):
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def loaded_by(code, folder):
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}\nprint(*sys.modules)"
    return set(output_of(code, folder).split())


def test_import_loads_no_engine_and_no_cluster():
    for name in ("twom_dist", "twom_dist.cli"):
        assert loaded_by(f"import {name}", ROOT) & set(NOT_LOADED) == set()


def test_all_but_jobs_does_without_the_locks_of_posix(tmp_path):
    """As on Windows."""
    code = (
        # dask's locks know those of Windows.
        "import locket; sys.modules['fcntl'] = None; import numpy, twom_dist as td; "
        "A = numpy.eye(4); numpy.save('A.npy', A); td.gemm(A, A)\n"
        "try: td.multiply_files('A.npy', 'A.npy', 'C.npy')\n"
        "except OSError as e: assert e.code == 'no-locks', e\n"
        "else: assert False"
    )
    loaded_by(code, tmp_path)


def test_jobs_do_without_dask_array(tmp_path):
    """It imports what it finds of xarray, pandas and CuPy, which takes a second."""
    code = (
        "import numpy, twom_dist as td; numpy.save('A.npy', numpy.eye(4)); "
        "td.multiply_files('A.npy', 'A.npy', 'C.npy', engine='reference')"
    )
    assert loaded_by(code, tmp_path) & {"dask.array", "pandas", "xarray"} == set()


PASSED = """
import json, os, sys
import numpy as np
import twom_dist as td

ours = os.path.dirname(td.__file__)

def passed(*arrays, **options):
    found = set()

    def see(frame, event, _):
        code = frame.f_code
        # Comprehensions are frames of their own before Python 3.12.
        named = code.co_name == "<lambda>" or not code.co_name.startswith("<")
        if event == "call" and named and code.co_filename.startswith(ours):
            found.add((code.co_filename.removeprefix(ours), code.co_qualname))

    sys.setprofile(see)
    td.gemm(*arrays, **options)
    sys.setprofile(None)
    return sum("/kernels/" not in name for name, _ in found)

def random(*shape, seed=0):
    parts = np.random.default_rng(seed).standard_normal((2, *shape))
    return parts[0] + 1j * parts[1]

a, b, stack = random(64, 64), random(64, 64, seed=1), random(4, 64, 64)
for x in (random(32, 32), random(2, 32, 32)):
    td.gemm(x, x)
print(json.dumps({
    "gemm": passed(a, b),
    "gemm again": passed(a, b),
    "gemm of given moduli again": [passed(a, b, num_moduli=16) for _ in "12"][1],
    "stack again": [passed(stack, stack) for _ in "12"][1],
}))
"""


def test_a_small_product_passes_few_functions_of_ours():
    # Of their own: what others have cached would not be passed again.
    found = json.loads(output_of(PASSED, ROOT))
    recorded = json.loads((ROOT / "tests/data/ways.json").read_text())
    assert {name: min(found[name], n) for name, n in recorded.items()} == found


@cases("path", sorted((ROOT / "benchmarks").glob("*.py")))
def test_each_benchmark_finds_what_it_imports(path):
    """One that draws looks for fonts, by another program."""
    if "cupy" in path.read_text("utf-8"):
        pytest.importorskip("cupy")
    import_module(f"benchmarks.{path.stem}")
