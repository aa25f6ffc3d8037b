"""Exceptions of twom_dist: what is wrong, what to do, and a code that stays."""

from typing import Any

__all__ = [
    "AccuracyError",
    "ArgumentError",
    "EngineUnavailableError",
    "KernelError",
    "MemoryLimitError",
    "PlanError",
    "StoreError",
    "TwomError",
]


class TwomError(Exception):
    """An error that says what is wrong and what to do about it.

    Parameters
    ----------
    problem : str
        What is wrong, as a clause: "cannot write 'C': the directory does not exist".
    remedy : str
        What to do about it, as an imperative: "Create it first".
    code : str
        A name that stays when the words change, such as "output-exists".
    """

    def __init__(self, problem: str, remedy: str = "", code: str = "") -> None:
        super().__init__(" ".join(map(_sentence, filter(None, (problem, remedy)))))
        self.problem, self.remedy, self.code = problem, remedy, code

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an exception is made again from its message alone.
        return type(self), (self.problem, self.remedy, self.code), self.__dict__


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


class ArgumentError(TwomError, TypeError):
    """An argument of a type, dtype or array library that cannot be used."""


class PlanError(TwomError, ValueError):
    """A product that cannot be planned from the shapes and options given."""


class MemoryLimitError(PlanError):
    """A plan whose smallest form does not fit into the memory it was given."""


class AccuracyError(PlanError):
    """An accuracy that the requested method or number of moduli cannot give."""


class EngineUnavailableError(TwomError, ImportError):
    """An engine whose packages or hardware are missing."""


class KernelError(TwomError, RuntimeError):
    """A kernel that broke its contract, or that the device refused to run."""


class StoreError(TwomError, OSError):
    """A matrix file that cannot be read or written, or a cluster that cannot serve."""
