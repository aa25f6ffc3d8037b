"""One line on stderr and an exit code, instead of a traceback."""

import json
import logging
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ..errors import TwomError
from .signals import leaving_in_order
from .streams import discard, open_standard_streams, say, show, write_error

DONE, FAILED, REFUSED = 0, 1, 2
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
# All commands have these. docs/files.md has the same table.
EXIT_CODES = {
    DONE: "done",
    FAILED: "failed while running, or doctor found a failure, or status an output that "
    "is not finished; the output is unchanged",
    REFUSED: "refused before any work: usage, inputs, output, workers, disk space",
    INTERRUPTED: "interrupted (Ctrl-C); the output is unchanged",
    TERMINATED: "terminated (SIGTERM); the output is unchanged",
}
# For help texts; \b keeps the lines as they are.
EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code:<3}  {meaning}" for code, meaning in EXIT_CODES.items()
)

_CANCELLED = "the scheduler went away, or somebody cancelled the job"
_KILLED = "the worker processes died again and again, most likely out of memory"
# A job that continues keeps its tiles.
_SMALLER = (
    "Run it again with fewer --n-workers or a larger --memory-limit, or anew, with "
    "--overwrite and smaller --chunks"
)
# What is said of errors of others, by name: distributed need not be loaded for it.
_FOREIGN = {
    "KeyboardInterrupt": ("interrupted; the output is unchanged", "", "interrupted"),
    "Terminated": ("terminated; the output is unchanged", "", "terminated"),
    "KilledWorker": (_KILLED, _SMALLER, "worker-killed"),
    "FutureCancelledError": (_CANCELLED, "Run it again", "job-cancelled"),
    "CommClosedError": (_CANCELLED, "Run it again", "scheduler-gone"),
    "MemoryError": ("out of memory", _SMALLER, "out-of-memory"),
}
_CODES = {"interrupted": INTERRUPTED, "terminated": TERMINATED}
# In the context of a command, and of those above it.
_ARGUMENTS, _AT_WORK = "twom_dist.arguments", "twom_dist.at_work"


def begin_work() -> Any:
    """Treat errors from here on as failures; return the function to commit with."""
    context = click.get_current_context()
    context.meta[_AT_WORK] = True
    return context.obj


def describe(error: BaseException) -> TwomError:
    """Say what is wrong and what to do."""
    if isinstance(error, TwomError):
        return error
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "twom-dist"
        problem = " ".join(error.format_message().split()).rstrip(".")
        return TwomError(problem, f"See {command} --help", "usage")
    name = type(error).__name__
    unknown = (f"{name}: {error}", "Use --debug to see where", "unexpected")
    return TwomError(*_FOREIGN.get(name, unknown))


@contextmanager
def _in_one_sentence(ctx: click.Context) -> Iterator[None]:
    """End errors in a line on stderr and an exit code."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except (Exception, KeyboardInterrupt) as error:
        # Without any argument click shows the help, as an error of this kind.
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        raise click.exceptions.Exit(_end(ctx, error)) from error


def _end(ctx: click.Context, error: BaseException) -> int:
    """Tell of an error, and return the exit code."""
    arguments, at_work = ctx.meta[_ARGUMENTS], ctx.meta.get(_AT_WORK)
    if isinstance(error, OSError) and {"-h", "--help", "--version"} & arguments:
        discard(sys.stdout)
        # Its reader may have seen enough.
        if isinstance(error, BrokenPipeError):
            return DONE
    said = describe(error)
    refused = isinstance(error, TwomError | click.UsageError) and not at_work
    code = REFUSED if refused else _CODES.get(said.code, FAILED)
    if "--debug" in arguments:
        write_error("".join(traceback.format_exception(error)))
    say("error: " + " ".join(str(said).splitlines()))
    if "--json" in arguments:
        about = {"error": said.problem, "remedy": said.remedy, "code": said.code}
        show(json.dumps({**about, "exit": code}), done=True)
    return code


class _OneSentence:
    """Base of commands: errors are one line, and signals end the command in order.

    While it runs, the context's object is the function of `leaving_in_order`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> Any:
        open_standard_streams()
        ctx.meta[_ARGUMENTS] = {*args}
        with _in_one_sentence(ctx):
            return super().parse_args(ctx, args)  # type: ignore[misc]

    def invoke(self, ctx: click.Context) -> Any:
        if "--debug" not in ctx.meta[_ARGUMENTS]:
            # dask's: the command says what went wrong. Until the process has ended,
            # since asyncio tells of futures as they are thrown away.
            logging.disable(logging.CRITICAL)
        with leaving_in_order() as ctx.obj, _in_one_sentence(ctx):
            return super().invoke(ctx)  # type: ignore[misc]


class SentenceCommand(_OneSentence, click.Command):
    """A command that stands alone."""


class SentenceGroup(_OneSentence, click.Group):
    """The command with all others inside it."""
