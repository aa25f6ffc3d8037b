"""Every kernel on a device, once and small: what `make sanitize-gpu` watches."""

from unittest import mock

import pytest

from tests.gpu.ways import WAYS, engine_or_skip, take
from tests.support.cuda import every_kernel
from twom_dist.kernels import get_engine

pytestmark = pytest.mark.gpu

engine_or_skip()


@pytest.fixture
def cp():
    """CuPy without its pool, inside of which no sanitizer sees where an array ends."""
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.using_allocator():
        yield cupy


@pytest.mark.parametrize("way", WAYS)
def test_every_kernel_runs(cp, way, monkeypatch):
    engine = get_engine("cuda")
    device = engine.device
    take(way, device, monkeypatch)
    # Every launch asks for its kernel, or every script, as it is written.
    monkeypatch.setattr(engine, "scripts", type(engine.scripts)())
    with mock.patch.object(device, "function", wraps=device.function) as asked:
        every_kernel.assert_every_kernel_is_right(engine, cp.asarray, cp.asnumpy)
    found = {call.args[1] for call in asked.call_args_list}
    assert found == every_kernel.kernels_of(device.capability())
