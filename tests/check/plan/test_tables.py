"""What jobs and the doctor show."""

from dataclasses import replace

import numpy as np

from twom_dist.jobs import JobSummary
from twom_dist.workers.diagnosis import Finding, Report

HOSTILE = "<script>alert('&amp;')</script>"
JOB = JobSummary(
    *(f"{HOSTILE}.zarr", "herk", (6, 6, 5), np.dtype("complex64"), (3, 3, 2)),
    *((2, 2, 3), 2, "2m", 8, "cpu", 2.0, 1, 4 * 10**9),
    missing={HOSTILE: 3},
)
FINDINGS = Finding("GPU", "ok", "none"), Finding("disk", "warning", HOSTILE, "Clean up")
REPORT = Report(FINDINGS)


def test_a_summary_is_one_sentence_and_a_report_has_lines():
    job = replace(JOB, path="C.zarr", missing={"A.zarr": 3})
    assert str(job) == (
        "C.zarr: herk, 6 x 6 complex64, 3 x 3 tiles in 2 waves, 1 of them from before "
        "(k in 2), 2m with 8 moduli, cpu, 2.0 s, 2.0 GFLOP/s; 3 chunks of A.zarr are "
        "missing, and read as its fill value"
    )
    assert repr(REPORT) == str(REPORT)
    assert str(REPORT).splitlines() == [
        "ok       GPU   none",
        f"warning  disk  {HOSTILE}. Clean up.",
    ]
