"""Products and updates of stored matrices: files in, a file out, in bounded memory."""

from .attempt import Attempt, begin
from .driver import multiply_files, update_files
from .job import Job
from .layout import Layout, lay_out, local_cluster_of, plan_wave
from .opening import open_job, open_update
from .report import JobSummary, Progress
from .room import Room, find_room

__all__ = [
    "Attempt",
    "Job",
    "JobSummary",
    "Layout",
    "Progress",
    "Room",
    "begin",
    "find_room",
    "lay_out",
    "local_cluster_of",
    "multiply_files",
    "open_job",
    "open_update",
    "plan_wave",
    "update_files",
]
