"""Clusters, which one session starts for all tests here."""

from tests.support.batch import folder, long_product, slurm  # noqa: F401
from tests.support.workers import client  # noqa: F401
