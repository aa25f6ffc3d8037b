"""The contract of octaves, for the engines of NumPy."""

from tests.support.contract.octaves import *  # noqa: F403
