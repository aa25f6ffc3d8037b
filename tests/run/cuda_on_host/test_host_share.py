"""Our share of a small product on a GPU: what the host does before the device works.

Of products for which a script is kept; arrays and allocations are CuPy's own. Times are
`benchmarks/bench_host.py`'s to measure: here are counts, which no other work changes.
"""

from functools import partial

import pytest

import twom_dist as td
from tests.support.counts import assert_as_recorded, count_warm
from twom_dist.contractions import pair

pytest.importorskip("cupy")

from tests.support.cuda.idle import idle_device


@pytest.fixture
def device():
    with idle_device() as found:
        yield found


def cases(device):
    """Products of one and of 256 matrices; and of 512, whose products need maps."""
    found = {}
    for shape in ((64, 64), (256, 64, 64), (512, 512)):
        a, b, c = (device.matrix(*shape) for _ in range(3))
        of = f"of {' x '.join(map(str, shape))} on a GPU"
        added = {"beta": 2.0, "op_b": "C"}
        found |= {
            f"gemm {of}": partial(td.gemm, a, b, num_moduli=16),
            f"gemm and C {of}": partial(td.gemm, a, b, c, num_moduli=16, **added),
            f"gemm into out {of}": partial(td.gemm, a, b, num_moduli=16, out=c),
            f"herk {of}": partial(td.herk, a, num_moduli=16),
            f"matmul {of}": partial(td.matmul, a, b, num_moduli=16),
        }
    return found


def test_cupy_is_asked_once(device):
    """For the device, the stream, the result, the rest of the memory, all launches."""
    asked = "getDevice", "get_current_stream", "empty", "alloc", "run"
    for name, call in cases(device).items():
        call()
        once = [x for x in asked if x != "empty" or "into out" not in name]
        assert device.counts(call) == dict.fromkeys(once, 1)


def test_few_functions_are_called(device):
    assert_as_recorded(count_warm(cases(device), "functions of {}", apart=None))


def test_matmul_tells_gemm_by_where_matrices_lie(device):
    """Nothing waits for the device where two matrices cannot be x and x^T or x^H."""
    for shape in ((64, 64), (3, 64, 64)):
        a, b = device.matrix(*shape), device.matrix(*shape)
        for waits in (False, True):
            assert pair.differ_surely(a, b, waits=waits)
            assert not pair.differ_surely(a, a.swapaxes(-1, -2), waits=waits)
        assert not pair.differ_surely(a, b.swapaxes(-1, -2), waits=True)
