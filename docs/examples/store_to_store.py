"""A job from store to store: no matrix is ever whole in memory.

The same in a shell is ``twom-dist herk X.zarr -o H.zarr``, and on a cluster
``sbatch -N 4 jobs/slurm.sbatch herk X.zarr -o H.zarr``, with the scripts that
``twom-dist scripts jobs`` writes. A job that was stopped goes on where it was, when the
same command is given again.
"""

import tempfile
from pathlib import Path

import numpy as np
import zarr

import twom_dist as td

with tempfile.TemporaryDirectory() as folder:
    source, target = Path(folder, "X.zarr"), Path(folder, "H.zarr")
    rng = np.random.default_rng(4)
    values = rng.standard_normal((300, 500)) + 1j * rng.standard_normal((300, 500))
    zarr.create_array(source, data=values, chunks=(100, 250))

    summary = td.rank_k_files(td.herk, source, target, chunks=100)
    print(summary)

    found = zarr.open_array(target, mode="r")[:]
    assert np.array_equal(found, td.herk(values))
