"""Exceptions of twom_dist: what is wrong, what to do, and a code that stays."""

import reprlib
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "AccuracyError",
    "AccuracyWarning",
    "ArgumentError",
    "EngineUnavailableError",
    "KernelError",
    "MemoryLimitError",
    "PlanError",
    "StoreError",
    "TwomError",
]

# How much of a cause is kept: dask cuts texts of 10,000 characters, and drops codes.
_CAUSE_CHARACTERS = 2000
_CAUSE_FRAMES = 4


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


class _Repr(reprlib.Repr):
    """Representations that are shorter than a line."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:
        # Python itself refuses to print more than 4300 digits.
        return repr(x) if abs(x) < 10**20 else f"<integer of {x.bit_length()} bits>"


_repr = _Repr()


def shown(value: Any) -> str:
    """Show an argument in a sentence about it.

    Examples
    --------
    >>> shown(10**400), shown(1e-3)
    ('<integer of 1329 bits>', '0.001')
    """
    return " ".join(_repr.repr(value).split())


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


class AccuracyWarning(UserWarning):
    """A product whose matrices need more than any residue system has."""


@contextmanager
def portable_errors() -> Iterator[None]:
    """Have errors of ours reach another process as they are; for the body of a task.

    dask sends an exception with its cause, and without its type where that cannot be
    pickled: of the cause only the text goes along, as a note.
    """
    try:
        yield
    except TwomError as error:
        shown = error.__cause__ if error.__suppress_context__ else error.__context__
        if shown is not None:
            text = f"{type(shown).__name__}: {shown}"[:_CAUSE_CHARACTERS]
            frames = traceback.format_tb(shown.__traceback__, -_CAUSE_FRAMES)
            error.add_note("".join((f"Caused by {text}\n", *frames)))
        error.__cause__ = error.__context__ = None
        raise
