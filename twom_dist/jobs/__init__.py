"""Products and updates of stored matrices: files in, a file out, in bounded memory."""

from .budget import budget_for_job
from .driver import compute, run_job
from .job import Job, check_call, open_job
from .run import Run, begin, claim
from .summary import JobSummary, Progress

__all__ = [
    "Job",
    "JobSummary",
    "Progress",
    "Run",
    "begin",
    "budget_for_job",
    "check_call",
    "claim",
    "compute",
    "open_job",
    "run_job",
]
