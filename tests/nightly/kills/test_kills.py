"""Jobs that are killed: the same bits, the old matrix or the new."""

import subprocess
import sys

import h5py
import numpy as np
import pytest

import twom_dist as td
from tests.support.command import ENVIRONMENT, make, read
from tests.support.expect import same_bits
from tests.support.stored import left_behind, save

OUTPUTS = ("C.zarr", "C.npy", "C.h5")
# A process that has imported everything forks each run, and kills it after a part of
# the time that a whole run takes: at the start, among the tiles, or while it exports.
SCRIPT = """if True:
    import os, random, signal, sys, time
    from functools import partial
    import h5py, zarr, dask.array, distributed
    from twom_dist import multiply_files
    from twom_dist.errors import StoreError
    kills, overwrite, outputs = int(sys.argv[1]), sys.argv[2] == "True", sys.argv[3:]
    options = {"chunks": 16, "engine": "reference", "num_moduli": 16}
    job = partial(multiply_files, "A.npy", "A.npy", **options)

    def run(path, seconds, **options):
        child = os.fork()
        if child == 0:
            try:
                job(path, **options)
                os._exit(0)
            except StoreError as error:
                # The run before was killed after the output had got its name.
                os._exit(0 if error.code == "output-exists" else 1)
            except BaseException:
                os._exit(2)
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    for output in outputs:
        start = time.perf_counter()
        assert run("whole" + output, None) == 0
        whole = time.perf_counter() - start
        random.seed(output)
        killed = whole_runs = 0
        while killed < kills:
            part = random.uniform(0, 1.1 if overwrite else 0.6)
            code = run(output, part * whole, overwrite=overwrite)
            assert code in (-signal.SIGKILL, 0), code
            killed += code != 0
            if code == 0 and not overwrite:
                whole_runs += 1
                os.rename(output, f"{whole_runs}{output}")
        if not overwrite:
            assert run(output, None) == 0
"""


@pytest.mark.parametrize("old", [False, True])
def test_jobs_that_are_killed_again_and_again(tmp_path, monkeypatch, old):
    monkeypatch.chdir(tmp_path)
    a = make(48, 48, 5)
    np.save("A.npy", a)
    for name in OUTPUTS if old else ():
        save(name, np.eye(48) + 0j)
    outputs = (*OUTPUTS, "D.h5::g/D") if old else OUTPUTS
    if old:
        with h5py.File("D.h5", "w") as file:
            file["g/D"], file["beside"] = np.eye(48) + 0j, a
    command = [sys.executable, "-c", SCRIPT, "3", str(old), *outputs]
    own = ENVIRONMENT | {"PATH": "", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    new = td.gemm(a, a, num_moduli=16)
    for name in outputs if old else ():
        # Each run has started anew, and the last may have ended before it was killed.
        found = read(name)
        assert same_bits(found, np.eye(48) + 0j) or same_bits(found, new)
        options = {"chunks": 16, "num_moduli": 16, "overwrite": True}
        td.multiply_files("A.npy", "A.npy", name, **options)
    for name in outputs:
        file, _, member = name.partition("::")
        for path in tmp_path.glob(f"*{file}"):
            assert same_bits(read(f"{path}::{member}" if member else str(path)), new)
    if old:
        assert same_bits(read("D.h5::beside"), a)
    assert left_behind(tmp_path) == []
