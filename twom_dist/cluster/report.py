"""The report of the doctor: findings, each with a status and advice."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failure"]


@dataclass(frozen=True)
class Finding:
    """One line of a report.

    What was `found` is a clause like the problem of an error, and the `advice` is like
    its remedy, empty if there is nothing to do. A warning means that something is
    slower or does not work as it could; a failure, that products fail or may be wrong.
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
