"""Products of stored matrices: files in, a file out, in bounded memory."""

from .driver import multiply_files
from .job import Job, open_job
from .layout import Layout, lay_out, local_cluster_of
from .report import JobSummary, Progress

__all__ = [
    "Job",
    "JobSummary",
    "Layout",
    "Progress",
    "lay_out",
    "local_cluster_of",
    "multiply_files",
    "open_job",
]
