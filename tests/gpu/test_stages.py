"""Every stage of a product and of stacks, and routines, by each way of multiplying."""

import pytest

from tests.gpu.ways import WAYS, engine_or_skip, take
from tests.support.cuda.beside import Beside, Call
from twom_dist.run import prepared

pytestmark = pytest.mark.gpu
CUDA = engine_or_skip()

# After the skip: what is collected twice would be there without a device.
from tests.support.contract.decode import *  # noqa: E402, F403
from tests.support.contract.products import *  # noqa: E402, F403
from tests.support.contract.routines import *  # noqa: E402, F403
from tests.support.contract.stages import *  # noqa: E402, F403


@pytest.fixture(params=WAYS)
def engine(request, monkeypatch):
    take(request.param, CUDA.device, monkeypatch)
    return Beside(CUDA, pytest.importorskip("cupy"))


@pytest.fixture
def compute(engine):
    prepared._prepared.clear()
    return lambda routine, *given, **options: Call(engine.cupy, routine)(
        *given, **options
    )
