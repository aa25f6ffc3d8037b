"""Tests of this folder start nothing, as their folder says."""

import os
import socket
import subprocess
from threading import Thread

import pytest

REFUSED = pytest.fail.Exception


def test_what_starts_or_listens_fails():
    with pytest.raises(REFUSED, match="tests/run"):
        subprocess.run(["true"], check=True)
    with pytest.raises(REFUSED, match="tests/run"):
        os.fork()
    with socket.socket() as own, pytest.raises(REFUSED, match="tests/run"):
        own.bind(("127.0.0.1", 0))


def test_threads_of_a_test_are_watched_as_well():
    caught = []

    def start():
        with pytest.raises(REFUSED):
            subprocess.run(["true"], check=True)
        caught.append(True)

    thread = Thread(target=start)
    thread.start()
    thread.join()
    assert caught
