"""One sentence on stderr and an exit code, instead of a traceback."""

import os
import re
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import click

from ..errors import EngineUnavailableError, KernelError, PlanError, StoreError

FAILED = 1
REFUSED = 2
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
# Of a help text; \b keeps its lines.
EXIT_CODES = """\b
Exit codes:
  0    done
  1    failed while running; the output is what it was before
  2    refused before any work: usage, inputs, output, workers, disk space
  130  interrupted (Ctrl-C), 143 terminated; the output is what it was before
"""

_STILL_LEAVING = b"twom-dist: cleaning up; once more ends it at once\n"

# Their texts are sentences for users.
_OURS = (StoreError, PlanError, KernelError, EngineUnavailableError)
# By name: distributed need not be loaded to tell them.
_FOREIGN = {
    "KilledWorker": (
        "the worker processes died again and again, most likely out of memory; use a "
        "smaller --tile, fewer --workers or a larger --memory-limit"
    ),
    "FutureCancelledError": (
        "the scheduler went away, or somebody cancelled the job; run it again"
    ),
    "CommClosedError": "the connection to the scheduler was lost; run the job again",
}
# What the library calls its arguments -> what they are called here.
_OPTION_NAMES = {
    "resume=True, overwrite=True": "--resume --overwrite",
    "overwrite=True": "--overwrite",
    "resume=True": "--resume",
    "smaller chunks": "a smaller --tile",
    "leave engine out": "leave --engine out",
}
# An argument with its value; no part of a path such as /data/method=2m/C.zarr.
_ARGUMENT = re.compile(
    r"(?<!\S)(accuracy|num_moduli|method|scaling|engine|tile)=('?)([^\s';,]+)\2"
)


class RefusedError(Exception):
    """Something that was found wrong before any work; its text is the sentence."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: leaves like Ctrl-C."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turn what the checks raise into `RefusedError`."""
    try:
        yield
    except (*_OURS, TypeError) as error:
        raise RefusedError(describe(error)) from error


@contextmanager
def leaving_in_order() -> Iterator[None]:
    """Leave on SIGTERM or Ctrl-C: the first raises in the main thread.

    The second does not disturb the clean-up, and the third ends the process at once.
    """
    signals = [signal.SIGTERM]
    # Shells have what they start in the background ignore it.
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
    """Put off SIGTERM, and ignore Ctrl-C, while worker processes start.

    Half-started workers cannot be closed in order. Processes inherit what is ignored:
    a Ctrl-C in the terminal goes to all of them, and is for this one alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noticed: list[int] = []
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda n, _: noticed.append(n)),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if noticed:
            signal.raise_signal(signal.SIGTERM)


def describe(error: BaseException) -> str:
    """Put an error into one line."""
    name = type(error).__name__
    if name in _FOREIGN:
        return _FOREIGN[name]
    text = " ".join(str(error).split())
    if isinstance(error, RefusedError):
        return text
    if isinstance(error, (*_OURS, TypeError)) and text:
        return name_options(text)
    if isinstance(error, MemoryError):
        return "out of memory; use a smaller --tile or fewer --workers"
    return f"{name}: {text} (--debug shows where)" if text else f"{name} (see --debug)"


def name_options(text: str) -> str:
    """Name arguments of the library as they are typed here."""
    for ours, theirs in _OPTION_NAMES.items():
        text = text.replace(ours, theirs)
    return _ARGUMENT.sub(_show_option, text)


def _show_option(argument: re.Match[str]) -> str:
    """Show an argument as it is typed."""
    name, _, value = argument.groups()
    return f"--{name.replace('_', '-')} {value}"


def _say(sentence: str) -> None:
    click.echo(f"twom-dist: error: {sentence}", err=True)


class _OneSentence:
    """Commands whose errors are one sentence, wrong usage included."""

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
            sentence = f"{word}; the output is what it was before"
        except Exception as error:
            ended = error
            code = REFUSED if isinstance(error, RefusedError) else FAILED
            sentence = describe(error)
        if ctx.params.get("debug"):
            traceback.print_exception(ended)
        _say(sentence)
        ctx.exit(code)


def _refuse_usage(ctx: click.Context, error: click.UsageError) -> NoReturn:
    # Without any argument click shows the help, as an error of this kind.
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    text = error.format_message().rstrip(".")
    _say(f"{text}; see {ctx.command_path} --help")
    ctx.exit(REFUSED)


class SentenceCommand(_OneSentence, click.Command):
    """A command whose errors are one sentence."""


class SentenceGroup(_OneSentence, click.Group):
    """A group of such commands."""

    command_class = SentenceCommand
