"""What an import of the package loads."""

import subprocess
import sys

from tests.support.places import ROOT

# What `import twom_dist` leaves alone, so that it is quick and works everywhere.
NOT_LOADED = (
    *("cupy", "llvmlite", "numba", "onnxruntime", "zarr", "h5py", "distributed"),
    "xarray",
)


def loaded_by(code, folder):
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


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
