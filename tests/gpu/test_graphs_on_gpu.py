"""CUDA graphs of products on a device: captured by users, and by a Product itself."""

import pytest

import twom_dist as td
from tests.gpu.ways import engine_or_skip, is_fused, matches
from twom_dist.testing import random_matrix as spread_matrix

CUDA = engine_or_skip()
cp = pytest.importorskip("cupy")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not is_fused(CUDA),
        reason="CuPy refuses calls of cuBLAS while a stream is captured",
    ),
]


@pytest.mark.parametrize(("routine", "count"), [(td.gemm, 2), (td.herk, 1)])
def test_a_product_is_captured_into_a_graph(routine, count):
    product = td.Product(*[(70, 70)] * count, routine=routine, num_moduli=16)
    given = [cp.asarray(spread_matrix(70, 70, seed=i)) for i in range(count)]
    out, stream = cp.empty((70, 70), complex), cp.cuda.Stream(non_blocking=True)
    allocated, below = [], cp.cuda.get_allocator()
    counting = cp.cuda.using_allocator(lambda x: allocated.append(x) or below(x))
    with stream, counting:
        product(*given, out=out)
        assert allocated
        allocated.clear()
        stream.begin_capture()
        product(*given, out=out)
        graph = stream.end_capture()
        assert not allocated
        others = [spread_matrix(70, 70, seed=5 + i) for i in range(count)]
        for x, other in zip(given, others, strict=True):
            x.set(other)
        graph.launch(stream)
        stream.synchronize()
    assert matches(cp, out, routine(*others, num_moduli=16))


@pytest.mark.parametrize("routine", [td.gemm, td.herk])
def test_a_product_replays_its_own_graphs(routine):
    count = 2 if routine is td.gemm else 1
    shapes = [(70, 70)] * count
    product = td.Product(*shapes, routine=routine, num_moduli=16, graph=True)
    given = [cp.empty((70, 70), complex) for _ in range(count)]
    streams, x = [cp.cuda.Stream(), cp.cuda.Stream.null], cp.empty((70, 70), complex)
    outs = [x, x.T, cp.empty_like(x)]  # three places
    for turn in range(18):
        out = outs[turn // 2 % 3]
        own = [spread_matrix(70, 70, seed=10 * turn + i) for i in range(count)]
        for x, other in zip(given, own, strict=True):
            x.set(other)
        cp.cuda.Device().synchronize()
        with streams[turn % 2]:
            assert product(*given, out=out) is out
        cp.cuda.Device().synchronize()
        assert matches(cp, out, routine(*own, num_moduli=16))


def test_what_a_call_returned_outlives_the_product():
    A = spread_matrix(70, 70, seed=1)
    product, a = td.Product((70, 70), (70, 70), num_moduli=16), cp.asarray(A)
    found = product(a, a)
    del product
    others = [cp.full((70, 70), 7j) for _ in range(100)]
    assert matches(cp, found, td.gemm(A, A, num_moduli=16))
    assert len(others) == 100
