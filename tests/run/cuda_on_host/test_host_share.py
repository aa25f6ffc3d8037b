"""Our share of a small product on a GPU: what the host does before the device works.

Of products for which a script is kept; arrays and allocations are CuPy's own.
"""

from functools import partial

import pytest

import twom_dist as td

pytest.importorskip("cupy")

from tests.support.cuda.idle import idle_device, mean_us

# Of a Zen 4 core: ours, and `reference`, which measures how fast another core is.
MOST_US, REFERENCE_US = 12, 3.6
SLACK = 2  # other work on the machine, other releases of Python


@pytest.fixture
def device():
    with idle_device() as found:
        yield found


def calls(device):
    """Products of one and of 256 matrices; and of 512, whose products need maps."""
    for shape in ((64, 64), (256, 64, 64), (512, 512)):
        a, b, c = (device.matrix(*shape) for _ in range(3))
        yield partial(td.gemm, a, b, num_moduli=16)
        yield partial(td.gemm, a, b, c, num_moduli=16, beta=2.0, op_b="C")
        yield partial(td.herk, a, num_moduli=16)


def reference():
    """Look up, call and pack as such a product does."""
    found = {}
    for i in range(10):
        found[i, "x", (64, 64)] = [x for x in (i, i + 1) if x]
    return tuple(map(str, range(10))), found


def test_cupy_is_asked_once(device):
    """For the device, the stream, the result, the rest of the memory, all launches."""
    asked = "getDevice", "get_current_stream", "empty", "alloc", "run"
    for call in calls(device):
        call()
        assert device.counts(call) == dict.fromkeys(asked, 1)


def test_our_own_time_is_short(device):
    scale = min(mean_us(reference, 1000) for _ in range(20)) / REFERENCE_US
    for call in calls(device):
        _, ours = device.shares(call, count=300, rounds=20)
        assert ours < SLACK * MOST_US * scale
