"""What every engine promises, by the CUDA engine on a device: where ways are alike."""

import pytest

from tests.gpu.ways import engine_or_skip
from tests.support.contract.encode import *  # noqa: F403
from tests.support.contract.fill import *  # noqa: F403
from tests.support.contract.finished_tiles import *  # noqa: F403
from tests.support.contract.look import *  # noqa: F403
from tests.support.contract.octaves import *  # noqa: F403
from tests.support.cuda.beside import Beside

pytestmark = pytest.mark.gpu
CUDA = engine_or_skip()


@pytest.fixture
def engine():
    return Beside(CUDA, pytest.importorskip("cupy"))
