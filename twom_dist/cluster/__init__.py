"""Clusters of one machine, and what is right or wrong with an installation."""

from .diagnosis import doctor
from .local import local_cluster
from .report import Finding, Report

__all__ = ["Finding", "Report", "doctor", "local_cluster"]
