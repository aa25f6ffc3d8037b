"""Local clusters, and the doctor, which examines an installation."""

from .diagnosis import Finding, Report, doctor
from .local import local_cluster

__all__ = ["Finding", "Report", "doctor", "local_cluster"]
