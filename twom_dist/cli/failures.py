"""One line on stderr and an exit code, instead of a traceback."""

import os
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, NoReturn

import click

from ..errors import TwomError

FAILED = 1
REFUSED = 2
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
# For help texts; \b keeps the lines as they are.
EXIT_CODES = """\b
Exit codes:
  0    done
  1    failed while running; the output is unchanged
  2    refused before any work: usage, inputs, output, workers, disk space
  130  interrupted (Ctrl-C), 143 terminated; the output is unchanged
"""

_STILL_LEAVING = b"twom-dist: cleaning up; once more ends it at once\n"

# Errors of others, by name: distributed need not be loaded to recognise them.
_FOREIGN = {
    "KilledWorker": (
        "the worker processes died again and again, most likely out of memory",
        "Use a smaller --tile, fewer --workers or a larger --memory-limit",
    ),
    "FutureCancelledError": (
        "the scheduler went away, or somebody cancelled the job",
        "Run it again",
    ),
    "CommClosedError": ("the connection to the scheduler was lost", "Run it again"),
    "MemoryError": ("out of memory", "Use a smaller --tile or fewer --workers"),
}
# Remedies by code, where an option has another name than the argument in Python.
_REMEDIES = {
    "many-tiles": "Use a larger --tile",
    "native-accuracy": "Leave out --accuracy and --num-moduli, or --method native",
    "no-beta": "Add C0 with --beta 1",
    "no-c": "Name C0 with --c, or leave out --beta",
    "output-exists": "Choose another output, or replace this one with --overwrite",
    "tile-differs": "Leave out --tile, or start anew with --overwrite",
    "unfinished-damaged": "Name the output as before, or start anew with --overwrite",
    "unfinished-differs": "Repeat the first command, or start anew with --overwrite",
    "unfinished-input-changed": "Bring back that input, or start anew with --overwrite",
    "unfinished-version": "Continue it with that one, or start anew with --overwrite",
}


class RefusedError(TwomError):
    """Something that was found wrong before any work."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: leaves like Ctrl-C."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turn what the checks raise into `RefusedError`."""
    try:
        yield
    except TwomError as error:
        raise RefusedError(error.problem, error.remedy, error.code) from error


@contextmanager
def leaving_in_order() -> Iterator[None]:
    """Leave on SIGTERM or Ctrl-C: the first raises in the main thread.

    The second does not disturb the clean-up, and the third ends the process at once.
    """
    signals = [signal.SIGTERM]
    # What a shell starts in the background ignores it.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signals.append(signal.SIGINT)
    leaving = False

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal leaving
        if not leaving:
            leaving = True
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        # The system ends it, even where Python waits for something else.
        for name in signals:
            signal.signal(name, signal.SIG_DFL)
        # Not through `sys.stderr`, which may be at work; the terminal may be gone.
        with suppress(OSError):
            os.write(2, _STILL_LEAVING)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(name, leave) for name in signals]
    try:
        yield
    finally:
        for name, handler in zip(signals, before, strict=True):
            signal.signal(name, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put off SIGTERM and Ctrl-C while worker processes start.

    Half-started workers cannot be closed in order. They inherit a mask that keeps
    Ctrl-C from them: the terminal sends it to all processes, and this one ends them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Its first start, which the first worker would cause, removes SIGINT from the mask.
    resource_tracker.ensure_running()
    noticed: list[int] = []
    before = {
        number: signal.signal(number, lambda n, _: noticed.append(n))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
        for put_off in noticed:
            signal.raise_signal(put_off)


def describe(error: BaseException) -> str:
    """Say in one line what is wrong and what to do."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, TwomError):
        remedy = _REMEDIES.get(error.code, error.remedy)
        text = str(TwomError(error.problem, remedy))
    elif name in _FOREIGN:
        text = str(TwomError(*_FOREIGN[name]))
    else:
        text = f"{name}: {text} (--debug shows where)"
    return " ".join(text.splitlines())


def say(sentence: str) -> None:
    """Print a line on stderr."""
    click.echo(f"twom-dist: {sentence}", err=True)


class _OneSentence:
    """Commands whose errors are one line, wrong usage included."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc,no-any-return]
        except click.UsageError as error:
            _refuse_usage(ctx, error)

    def invoke(self, ctx: click.Context) -> Any:
        ended: BaseException
        try:
            with leaving_in_order():
                return super().invoke(ctx)  # type: ignore[misc]
        except (click.exceptions.Exit, click.Abort):
            raise
        except click.UsageError as error:
            _refuse_usage(ctx, error)
        except KeyboardInterrupt as error:
            ended = error
            terminated = isinstance(error, Terminated)
            code = TERMINATED if terminated else INTERRUPTED
            word = "terminated" if terminated else "interrupted"
            sentence = f"{word}; the output is unchanged"
        except Exception as error:
            ended = error
            code = REFUSED if isinstance(error, RefusedError) else FAILED
            sentence = describe(error)
        if ctx.params.get("debug"):
            traceback.print_exception(ended)
        say(f"error: {sentence}")
        raise click.exceptions.Exit(code) from ended


def _refuse_usage(ctx: click.Context, error: click.UsageError) -> NoReturn:
    # Without any argument click shows the help, as an error of this kind.
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    text = error.format_message().rstrip(".")
    say(f"error: {text}; see {ctx.command_path} --help")
    raise click.exceptions.Exit(REFUSED) from error


class SentenceCommand(_OneSentence, click.Command):
    """A command whose errors are one line."""


class SentenceGroup(_OneSentence, click.Group):
    """A group of such commands."""

    command_class = SentenceCommand
