"""One line on stderr and an exit code, instead of a traceback."""

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, NoReturn, TextIO, cast

import click

from ..errors import TwomError
from .streams import Stderr, discard, open_standard_streams, say, show

DONE, FAILED, REFUSED = 0, 1, 2
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
# Of every command. docs/scaling-out.md has the same table.
EXIT_CODES = {
    DONE: "done",
    FAILED: "failed while running, or doctor found a failure; the output is unchanged",
    REFUSED: "refused before any work: usage, inputs, output, workers, disk space",
    INTERRUPTED: "interrupted (Ctrl-C); the output is unchanged",
    TERMINATED: "terminated (SIGTERM); the output is unchanged",
}
# For help texts; \b keeps the lines as they are.
EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code:<3}  {meaning}" for code, meaning in EXIT_CODES.items()
)

_STILL_LEAVING = b"twom-dist: cleaning up; once more ends it at once\n"

# Errors of others, by name: distributed need not be loaded to recognise them.
_FOREIGN = {
    "KilledWorker": (
        "the worker processes died again and again, most likely out of memory",
        "Use a smaller --tile, fewer --workers or a larger --memory-limit",
        "worker-killed",
    ),
    "FutureCancelledError": (
        "the scheduler went away, or somebody cancelled the job",
        "Run it again",
        "job-cancelled",
    ),
    "CommClosedError": (
        "the connection to the scheduler was lost",
        "Run it again",
        "scheduler-gone",
    ),
    "MemoryError": (
        "out of memory",
        "Use a smaller --tile or fewer --workers",
        "out-of-memory",
    ),
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
def leaving_in_order() -> Iterator[Callable[[], None]]:
    """Leave on SIGTERM or Ctrl-C: the first raises in the main thread.

    The second does not disturb the clean-up, and the third ends the process at once.
    The function that is yielded is called when the output is about to get its name:
    from there on nothing can be undone, and the first signal is like a second.
    """
    signals = [signal.SIGTERM]
    # What a shell starts in the background ignores it.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signals.append(signal.SIGINT)
    leaving = committed = False

    def commit() -> None:
        nonlocal leaving, committed
        leaving = committed = True

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
        yield commit
        return
    before = [signal.signal(name, leave) for name in signals]
    try:
        yield commit
    finally:
        for name, handler in zip(signals, before, strict=True):
            # Python takes a moment to exit.
            signal.signal(name, signal.SIG_IGN if committed else handler)


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


def describe(error: BaseException) -> TwomError:
    """Say what is wrong and what to do, in the words of the command line."""
    name = type(error).__name__
    if isinstance(error, TwomError):
        remedy = _REMEDIES.get(error.code, error.remedy)
        return TwomError(error.problem, remedy, error.code)
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "twom-dist"
        problem = error.format_message().rstrip(".")
        return TwomError(problem, f"See {command} --help", "usage")
    if isinstance(error, KeyboardInterrupt):
        word = "terminated" if isinstance(error, Terminated) else "interrupted"
        return TwomError(f"{word}; the output is unchanged", "", word)
    if name in _FOREIGN:
        return TwomError(*_FOREIGN[name])
    return TwomError(f"{name}: {error}", "Use --debug to see where", "unexpected")


def _choose_code(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    return REFUSED if isinstance(error, RefusedError | click.UsageError) else FAILED


class _OneSentence:
    """Commands whose errors are one line, wrong usage included."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        open_standard_streams()
        as_json = "--json" in args
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc,no-any-return]
        except click.UsageError as error:
            self._end(ctx, error, as_json)
        except OSError as error:
            # Of --help or --version.
            discard(sys.stdout)
            if isinstance(error, BrokenPipeError):
                raise click.exceptions.Exit(DONE) from None
            self._end(ctx, error, as_json)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)  # type: ignore[misc]
        except (click.exceptions.Exit, click.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            self._end(ctx, error, bool(ctx.params.get("as_json")))

    def _end(self, ctx: click.Context, error: BaseException, as_json: bool) -> NoReturn:
        # Without any argument click shows the help, as an error of this kind.
        if type(error).__name__ == "NoArgsIsHelpError":
            raise error
        said, code = describe(error), _choose_code(error)
        if ctx.params.get("debug"):
            traceback.print_exception(error, file=cast(TextIO, Stderr()))
        say("error: " + " ".join(str(said).splitlines()))
        if as_json:
            about = {"error": said.problem, "remedy": said.remedy, "code": said.code}
            show(json.dumps({**about, "exit": code}), done=True)
        raise click.exceptions.Exit(code) from error


class SentenceCommand(_OneSentence, click.Command):
    """A command whose errors are one line, and that signals end in order.

    While it runs, the context's object is the function of `leaving_in_order`.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with leaving_in_order() as ctx.obj:
            return super().invoke(ctx)


class SentenceGroup(_OneSentence, click.Group):
    """A group of such commands."""

    command_class = SentenceCommand
