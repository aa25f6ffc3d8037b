"""The report of the doctor: findings, each with a status and advice."""

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
        A warning means that something is slower or does not work as it could; a
        failure, that products fail or may be wrong.
    found : str
        What was found, as a clause, like the problem of an error.
    advice : str
        What to do about it, like the remedy of an error; empty if there is nothing to
        do.
    """

    name: str
    status: Status
    found: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.found}. {self.advice}." if self.advice else self.found


@dataclass(frozen=True)
class Report:
    """What `doctor` found, printed as one line for each finding.

    Attributes
    ----------
    findings : tuple of Finding
    """

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding is a failure."""
        return all(finding.status != "failure" for finding in self.findings)

    def __str__(self) -> str:
        width = max((len(finding.name) for finding in self.findings), default=0)
        return "\n".join(
            f"{finding.status:<7}  {finding.name:<{width}}  {finding}"
            for finding in self.findings
        )
