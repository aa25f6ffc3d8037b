"""The command line in a folder with two matrices, for its tests."""

import numpy as np
import pytest

from tests.command import CommandLine, K, M, N, make


@pytest.fixture
def call(here, capsys):
    """The command, in a folder of its own."""
    return CommandLine(capsys)


@pytest.fixture
def a(here):
    values = make(M, K, 1)
    np.save("A.npy", values)
    return values


@pytest.fixture
def b(here):
    values = make(K, N, 2)
    np.save("B.npy", values)
    return values
