"""The CUDA engine on a device: memory, streams, dask, and CuPy's products as ours."""

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.gpu.ways import WAYS, engine_or_skip, matches, take
from tests.support.strategies import random_matrix
from twom_dist.errors import MemoryLimitError
from twom_dist.kernels import get_engine
from twom_dist.testing import random_matrix as spread_matrix

pytestmark = pytest.mark.gpu

engine_or_skip()


@pytest.fixture(autouse=True, params=WAYS)
def every_way_of_multiplying(engine, monkeypatch, request):
    take(request.param, engine.device, monkeypatch)


@pytest.fixture(scope="module")
def engine():
    return get_engine("cuda")


@pytest.fixture(scope="module")
def cp(engine):
    return pytest.importorskip("cupy")


# Ten squares of 256 a side: two bands of products.cu, both with their diagonal. Of long
# rows products are derived.
@pytest.mark.parametrize("shape", [(2400, 200), (600, 3000)])
@pytest.mark.parametrize("uplo", ["full", "upper"])
@pytest.mark.parametrize("routine", [td.herk, td.syrk])
def test_updates_of_one_tile(cp, routine, uplo, shape):
    for dtype in ("float64", "complex128"):
        A = random_matrix(*shape, dtype, 1.0, 3)
        options = {"num_moduli": 3, "uplo": uplo}
        assert matches(cp, routine(cp.asarray(A), **options), routine(A, **options))


@pytest.mark.parametrize("workspace", ["24 MiB", "200 MiB", None])
def test_a_workspace_limit_changes_no_bit_and_holds(cp, workspace):
    A, B = spread_matrix(1300, 1100, seed=1), spread_matrix(1100, 1280, seed=2)
    expected = td.gemm(A, B)
    a, b = cp.asarray(A), cp.asarray(B)
    pool = cp.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    with dask.config.set({"twom-dist.workspace-bytes": workspace}):
        found = td.gemm(a, b)
    assert matches(cp, found, expected)
    if workspace is not None:
        limit = dask.utils.parse_bytes(workspace) + 3 * expected.nbytes
        assert pool.total_bytes() - before < limit


def test_too_large_a_product_is_refused_and_leaves_no_error_behind(cp):
    a = cp.ones((300, 300))
    pool = cp.get_default_memory_pool()
    pool.set_limit(size=pool.total_bytes() + (8 << 20))
    try:
        long = cp.broadcast_to(cp.ones((300, 1)), (300, 300000))
        # The default would first look at rows, by copies that are CuPy's own.
        with (
            dask.config.set({"twom-dist.workspace-bytes": "100 GiB"}),
            pytest.raises(MemoryLimitError, match="workspace-bytes"),
        ):
            td.gemm(long, cp.ones((300000, 1)), num_moduli=15)
    finally:
        pool.set_limit(size=0)
    assert td.gemm(a, a)[0, 0] == 300


def test_a_thousand_products_leak_nothing(cp):
    a = cp.asarray(spread_matrix(96, 64, seed=1))
    expected = td.gemm(a, a, op_b="C")
    pool = cp.get_default_memory_pool()
    used = pool.used_bytes()
    for _ in range(1000):
        found = td.gemm(a, a, op_b="C")
    assert (found == expected).all()
    del found
    assert pool.used_bytes() <= used


def test_two_streams_at_once(cp):
    matrices = [spread_matrix(300, 300, seed=s) for s in (1, 2)]
    streams = [cp.cuda.Stream(non_blocking=True) for _ in matrices]
    found = []
    for _ in range(5):
        for A, stream in zip(matrices, streams, strict=True):
            with stream:
                a = cp.asarray(A)
                found.append(td.herk(a))
    for stream in streams:
        stream.synchronize()
    expected = [td.herk(A) for A in matrices]
    for i, C in enumerate(found):
        assert matches(cp, C, expected[i % 2])


def test_dask_blocks_on_threads(cp):
    da = pytest.importorskip("dask.array")
    A = spread_matrix(300, 200, seed=1)
    a = da.from_array(cp.asarray(A), chunks=(70, 90))
    C = td.gemm(a, a, op_b="C")
    assert isinstance(C._meta, cp.ndarray)
    assert matches(cp, C.compute(scheduler="sync"), td.gemm(A, A, op_b="C"))
    assert matches(cp, td.herk(a).compute(scheduler="threads"), td.herk(A))


def test_products_of_cupy_have_the_bits_of_ours(cp):
    x, y = cp.asarray(random_matrix(90, 70)), cp.asarray(random_matrix(70, 50, seed=1))
    options = {"method": "2m", "num_moduli": 15}
    expected = td.matmul(x, y, **options)
    out = cp.empty_like(expected)
    with td.use(strict=True, **options) as used:
        found = [x @ y, x.dot(y), cp.matmul(x, y), cp.dot(x, y), np.matmul(x, y)]
        found += [cp.tensordot(x, y, 1), np.einsum("ij,jk", x, y)]
        found += [cp.matmul(x, y, out=out), out]
    assert (used.ours, used.left) == (8, 0)
    assert all((one == expected).all() for one in found)
    assert not (x @ y == expected).all()
