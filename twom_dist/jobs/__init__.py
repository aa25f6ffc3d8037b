"""Products and updates of stored matrices: files in, a file out, in bounded memory."""

from .driver import compute, multiply_files, run_job, update_files
from .job import Job
from .layout import Layout, lay_out, local_cluster_of, plan_wave
from .opening import open_job, open_update
from .report import JobSummary, Progress
from .room import Room, find_room
from .run import Run, begin

__all__ = [
    "Job",
    "JobSummary",
    "Layout",
    "Progress",
    "Room",
    "Run",
    "begin",
    "compute",
    "find_room",
    "lay_out",
    "local_cluster_of",
    "multiply_files",
    "open_job",
    "open_update",
    "plan_wave",
    "run_job",
    "update_files",
]
