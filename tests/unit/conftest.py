"""The command line in a folder with two matrices, for its tests."""

import numpy as np
import pytest

from tests.command import CommandLine, K, M, N, make


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """The command, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


@pytest.fixture
def a(tmp_path):
    values = make(M, K, 1)
    np.save(tmp_path / "A.npy", values)
    return values


@pytest.fixture
def b(tmp_path):
    values = make(K, N, 2)
    np.save(tmp_path / "B.npy", values)
    return values
