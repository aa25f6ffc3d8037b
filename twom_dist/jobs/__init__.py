"""Products of stored matrices: files in, a file out, in bounded memory."""

from .driver import compute, run_job
from .job import Job, check_call, open_job
from .reports import JobSummary, Progress
from .resources import budget_for_job
from .run import Run, begin, claim
