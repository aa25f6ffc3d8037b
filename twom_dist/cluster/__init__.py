"""Clusters of one machine, and what is right or wrong with an installation."""

from .diagnosis import Finding, Report, doctor
from .local import local_cluster

__all__ = ["Finding", "Report", "doctor", "local_cluster"]
