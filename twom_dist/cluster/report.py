"""What was found, whether it is right, and what to do where it is not."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failure"]


@dataclass(frozen=True)
class Finding:
    """One line of a report.

    Attributes
    ----------
    name : str
    status : {"ok", "warning", "failure"}
        A warning costs speed or memory; with a failure, products fail or may be wrong.
    found : str
    advice : str
        What to do; empty where nothing is.
    """

    name: str
    status: Status
    found: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.found}; {self.advice}" if self.advice else self.found


@dataclass(frozen=True)
class Report:
    """What `doctor` found; printed as one line each.

    Attributes
    ----------
    findings : tuple of Finding
    """

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return all(finding.status != "failure" for finding in self.findings)

    def __str__(self) -> str:
        width = max((len(finding.name) for finding in self.findings), default=0)
        return "\n".join(
            f"{finding.status:<7}  {finding.name:<{width}}  {finding}"
            for finding in self.findings
        )


def fine(name: str, found: str) -> Finding:
    """Make a finding that is right."""
    return Finding(name, "ok", found)


def warning(name: str, found: str, advice: str) -> Finding:
    """Make a finding that costs speed or memory."""
    return Finding(name, "warning", found, advice)


def failure(name: str, found: str, advice: str) -> Finding:
    """Make a finding with which products fail, or may be wrong."""
    return Finding(name, "failure", found, advice)


def refused(name: str, error: BaseException) -> Finding:
    """Make a failure of an error's first line, cut where it says what to do."""
    lines = str(error).splitlines() or [type(error).__name__]
    found, separator, advice = lines[0].rpartition("; ")
    return failure(name, found, advice) if separator else failure(name, advice, "")
