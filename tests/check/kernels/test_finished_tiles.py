"""Finished tiles by the engines of NumPy."""

from tests.support.contract.finished_tiles import *  # noqa: F403
