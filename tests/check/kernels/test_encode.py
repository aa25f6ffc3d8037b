"""Encode by the CPU's engine."""

from tests.support.contract.encode import *  # noqa: F403
