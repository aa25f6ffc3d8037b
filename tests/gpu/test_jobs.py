"""File jobs on a device: tiles that go there and come back, and the bits of the CPU."""

import warnings

import numpy as np
import pytest

import twom_dist as td
from tests.gpu.ways import engine_or_skip
from tests.support.expect import same_bits
from tests.support.integers import random_integers
from twom_dist.store import open_matrix
from twom_dist.testing import random_matrix

pytestmark = pytest.mark.gpu

for package in ("zarr", "distributed", "dask.array"):
    pytest.importorskip(package)
engine_or_skip()

M, K, N = 300, 200, 260
TILE = 64
MIB = 2**20
AB = ("A.zarr", "B.zarr")


@pytest.fixture(scope="module")
def client():
    """Two workers that share the device; who does not name them computes here."""
    import distributed

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import distributed.protocol.cupy
    except ImportError as error:
        # Its serializer of CuPy blocks needs numba-cuda, which is not ours to require.
        pytest.skip(f"dask cannot send CuPy blocks: {error}")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address="localhost:0",
            env={"CUPY_GPU_MEMORY_LIMIT": "10%"},
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.fixture
def files(here):
    zarr = pytest.importorskip("zarr")
    shapes = {"A": (M, K), "B": (K, N), "C0": (M, N)}
    for seed, (name, shape) in enumerate(shapes.items()):
        values = random_matrix(*shape, seed=seed)
        zarr.create_array(f"{name}.zarr", data=values, chunks=(TILE, TILE))


def compare(job, *arguments, **options):
    """Run a job on the device and on the CPU; return what it tells of the first."""
    options = {"chunks": TILE, **options}
    summary = job(*arguments, "C.zarr", **options)
    job(*arguments, "cpu.npy", **{**options, "engine": "cpu"})
    assert same_bits(*(open_matrix(x)[:, :] for x in ("C.zarr", "cpu.npy")))
    return summary


@pytest.mark.parametrize(
    ("job", "given", "options"),
    [
        (td.multiply_files, AB, {"beta": 0.5j, "c": "C0.zarr"}),
        (td.rank_k_files, (td.syrk, AB[0]), {"uplo": "upper"}),
    ],
)
def test_jobs_on_workers_that_share_the_device(client, files, job, given, options):
    options = {"client": client, "engine": "cuda", **options}
    assert compare(job, *given, **options).engine == "cuda"


def test_workers_that_share_the_device_stay_on_the_cores_unasked(client, files):
    options = {"client": client, "chunks": TILE}
    assert td.multiply_files("A.zarr", "B.zarr", "C.zarr", **options).engine == "cpu"


def test_this_process_uses_its_device_unasked(files):
    options = {"op_a": "C", "op_b": "C"}
    summary = compare(td.multiply_files, "B.zarr", "A.zarr", **options)
    assert summary.engine == "cuda"
    given = td.herk, "A.zarr"
    assert compare(td.rank_k_files, *given, overwrite=True).engine == "cuda"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_pairs_of_integers_go_to_the_device(here, dtype):
    np.save("V.npy", random_integers((M, K), dtype, pairs=True))
    given = td.integers.herk, "V.npy"
    assert compare(td.rank_k_files, *given, pairs=True).engine == "cuda"


def test_waves_stay_within_the_limit_of_the_pool(files):
    cp = pytest.importorskip("cupy")
    m, k, n = 2048, 512, 2048
    for name, shape in {"L.npy": (m, k), "R.npy": (k, n)}.items():
        np.save(name, random_matrix(*shape, seed=shape[0]))
    pool = cp.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + 64 * MIB)
    try:
        summary = compare(td.multiply_files, "L.npy", "R.npy", chunks=256)
    finally:
        pool.set_limit(size=0)
    assert (summary.engine, summary.waves > 1) == ("cuda", True)
