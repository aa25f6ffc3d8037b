"""Products and updates of stored matrices: files in, a file out, in bounded memory."""

from .budget import budget_for_job
from .driver import compute, multiply_files, update_files
from .job import Job, open_job
from .report import JobSummary, Progress
from .run import Run, begin

__all__ = [
    "Job",
    "JobSummary",
    "Progress",
    "Run",
    "begin",
    "budget_for_job",
    "compute",
    "multiply_files",
    "open_job",
    "update_files",
]
