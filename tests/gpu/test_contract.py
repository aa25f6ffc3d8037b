"""What every engine promises, by the CUDA engine on a device: where ways are alike."""

import pytest

from tests.gpu.ways import engine_or_skip
from tests.support.cuda.beside import Beside

pytestmark = pytest.mark.gpu
CUDA = engine_or_skip()

# After the skip: what is collected twice would be there without a device.
from tests.support.contract.encode import *  # noqa: E402, F403
from tests.support.contract.finished_tiles import *  # noqa: E402, F403
from tests.support.contract.look import *  # noqa: E402, F403


@pytest.fixture
def engine():
    return Beside(CUDA, pytest.importorskip("cupy"))
