"""Exceptions raised by twom_dist: what was given, what is allowed, what to do."""

__all__ = [
    "AccuracyError",
    "EngineUnavailableError",
    "KernelError",
    "MemoryLimitError",
    "PlanError",
    "StoreError",
]


class PlanError(ValueError):
    """A product that cannot be planned from the shapes and options given."""


class MemoryLimitError(PlanError):
    """A plan whose smallest form does not fit the memory it was given."""


class AccuracyError(PlanError):
    """An accuracy that the requested method or number of moduli cannot give."""


class EngineUnavailableError(ImportError):
    """An engine whose packages or hardware are missing here."""


class KernelError(RuntimeError):
    """A kernel that broke its contract, or that the device refused to run."""


class StoreError(OSError):
    """A matrix file that cannot be read or written."""
