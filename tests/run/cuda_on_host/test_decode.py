"""Decode by the kernels on the host, by doubles and by integers."""

import pytest

from tests.support.contract.decode import *  # noqa: F403

# Digits are doubles on one of them, integers on the other.
pytestmark = pytest.mark.parametrize("engine", [90, 89], indirect=True)
