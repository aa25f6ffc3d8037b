"""Exceptions of twom_dist: each has a problem, a remedy and a stable code."""

import reprlib
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

__all__ = [
    "AccuracyError",
    "AccuracyWarning",
    "ArgumentError",
    "EngineUnavailableError",
    "KernelError",
    "MemoryLimitError",
    "MemoryWarning",
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
        A name that stays the same when the words change, such as "output-exists".
    """

    def __init__(self, problem: str, remedy: str = "", code: str = "") -> None:
        texts = (
            x if x.endswith((".", "?")) else f"{x}." for x in (problem, remedy) if x
        )
        super().__init__(" ".join(texts))
        self.problem, self.remedy, self.code = problem, remedy, code

    def __reduce__(self) -> tuple[Any, ...]:
        # By default unpickling would rebuild an exception from its message alone.
        return type(self), (self.problem, self.remedy, self.code), self.__dict__


class _Repr(reprlib.Repr):
    """Representations shorter than a line."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:
        # Python itself refuses to print more than 4300 digits.
        return repr(x) if abs(x) < 10**20 else f"<integer of {x.bit_length()} bits>"


_repr = _Repr()


def shown(value: Any) -> str:
    """Represent an argument briefly, for use in a sentence.

    >>> shown(10**400), shown(1e-3)
    ('<integer of 1329 bits>', '0.001')
    """
    return " ".join(_repr.repr(value).split())


def spell_install(extra: str) -> str:
    """Spell the command that installs an extra: no index has this package."""
    return f"pip install '.[{extra}]' in a copy of the repository"


INSTALL_CUDA = f"{spell_install('cuda12')}, or cuda13 as the driver asks"


class ArgumentError(TwomError, TypeError):
    """An argument of a type, dtype or array library that cannot be used."""


class PlanError(TwomError, ValueError):
    """A product that cannot be planned from the shapes and options given."""


class MemoryLimitError(PlanError):
    """A plan whose smallest form does not fit into the given memory.

    Attributes
    ----------
    needed : float
        Bytes of tiles on the fullest worker; infinite if memory alone does not help.
    """

    needed: float = inf


class AccuracyError(PlanError):
    """An accuracy that the requested method or number of moduli cannot give."""


class EngineUnavailableError(TwomError, ImportError):
    """An engine whose packages or hardware are missing."""


class KernelError(TwomError, RuntimeError):
    """A kernel that broke its contract or that the device refused to run."""


class StoreError(TwomError, OSError):
    """A matrix file that cannot be read or written, or a cluster that cannot serve."""


class AccuracyWarning(UserWarning):
    """A product that may be less accurate than its caller expects."""


class MemoryWarning(UserWarning):
    """A product that its workers cannot hold, but which is computed nevertheless."""


# A lazy product is called by dask, which its user has called.
_CALLED = frozenset({__name__.partition(".")[0], "dask"})


def warn_caller(text: str, kind: type[Warning]) -> None:
    """Warn at the line that called the package, or that called dask."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals["__name__"].partition(".")[0] in _CALLED:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)


@contextmanager
def portable_errors() -> Iterator[None]:
    """Let our errors reach another process unchanged; use it around a task's body.

    dask pickles an exception together with its cause, and loses its type if the cause
    cannot be pickled. So only the cause's text goes along, as a note.
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


_NATIVE = (
    "the data need more moduli than there are: the product is native, and its last "
    "bits depend on the BLAS, its threads and how the matrices are cut. num_moduli or "
    "accuracy='normwise' gives a product on int8 units, which may be far less accurate"
)


def warn_of_native(on_worker: bool = False) -> None:
    """Warn that the product is native; from a worker, at its clients."""
    if on_worker:
        # Those that are connected: distributed passes the warning on to them.
        sys.modules["distributed"].warn(_NATIVE, AccuracyWarning)
    else:
        warn_caller(_NATIVE, AccuracyWarning)
