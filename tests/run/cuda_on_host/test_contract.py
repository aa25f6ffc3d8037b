"""What every engine promises, by the CUDA engine on the host: as on any device."""

from tests.support.contract.encode import *  # noqa: F403
from tests.support.contract.finished_tiles import *  # noqa: F403
from tests.support.contract.look import *  # noqa: F403
