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
        A warning costs speed; with a failure, products fail or may be wrong.
    found : str
        A clause, as the problem of an error.
    advice : str
        What to do, as the remedy of an error; empty where nothing is to be done.
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
        """Whether nothing failed."""
        return all(finding.status != "failure" for finding in self.findings)

    def __str__(self) -> str:
        width = max((len(finding.name) for finding in self.findings), default=0)
        return "\n".join(
            f"{finding.status:<7}  {finding.name:<{width}}  {finding}"
            for finding in self.findings
        )
