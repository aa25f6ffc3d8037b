"""Words, exit codes and signals: how a command answers, fails and is stopped.

Answers go to stdout, and one line to stderr for an error. The first, the second and the
third Ctrl-C or SIGTERM have different effects.
"""

import json
import logging
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import TextIOWrapper
from types import FrameType
from typing import Any

import click

from ..errors import TwomError

DONE, FAILED, REFUSED = 0, 1, 2
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
# All commands have these. docs/files.md has the same table.
EXIT_CODES = {
    DONE: "done",
    FAILED: "failed, and the output is unchanged; for status: the job is not finished",
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
ARGUMENTS, _AT_WORK = "twom_dist.arguments", "twom_dist.at_work"


def escape(text: str) -> str:
    """Spell out what a terminal would obey, such as a sequence in a file's name."""
    return "".join(x if x.isprintable() else ascii(x)[1:-1] for x in text)


# Parts of our sentences: quoted text, which stays; values; lists of names; names.
_SPOKEN = re.compile(
    r"""(?<!\w)(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")(?!\w)"""
    r"|(?<![^\s(])([a-z_]+)=('?)(\w[\w.+-]*\b)\2(?!/)"
    r"|(\b(?:Leave|[Ii]t takes|itself takes) [\w, ]+|\bwithout \w+"
    r"|(?<![^\s(])[a-z]+_[a-z_]+(?![/=]|\.\w))"
)


def spell(text: str) -> str:
    """Spell the arguments of routines as options: op_b='C' as --op-b C.

    In text of ours, where values such as paths are quoted.
    """
    ctx = click.get_current_context(silent=True)
    group: Any = ctx and ctx.find_root().command
    own = group.commands.values() if group else ()
    options = (x for command in own for x in command.params)
    known = {x.name for x in options if isinstance(x, click.Option)}

    def spell_found(found: re.Match[str]) -> str:
        name, _, value, names = found.groups()
        if names:
            words = re.split(r"\b", names)
            return "".join(_dash(x) if x in known else x for x in words)
        if name not in known:
            return found[0]
        flags = {"True": _dash(name), "False": f"no {_dash(name)}"}
        return flags.get(value, f"{_dash(name)} {value}")

    return _SPOKEN.sub(spell_found, text)


def _dash(name: str) -> str:
    return "--" + name.replace("_", "-")


def say(*sentences: str) -> None:
    """Print lines on stderr; where that fails, nothing is shown from then on."""
    try:
        for sentence in sentences:
            click.echo(f"twom-dist: {escape(sentence)}", err=True)
    except OSError:
        _discard(sys.stderr)


def show(answer: object, *, done: bool = False) -> None:
    """Print on stdout, whose reader may have seen enough.

    `done`: after what was asked for, so that no error of printing is a failure.
    """
    try:
        click.echo("\n".join(map(escape, str(answer).split("\n"))))
    except OSError as error:
        _discard(sys.stdout)
        if not done and not isinstance(error, BrokenPipeError):
            raise


def _discard(stream: Any) -> None:
    """Send a stream nowhere, and its buffer, which Python flushes when it exits."""
    with suppress(OSError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _open_standard_streams() -> None:
    """Open what was closed of stdin, stdout and stderr.

    A file would get its number, and with it what anybody writes there.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        # Its encoding may lack a character of some name.
        sys.stdout.reconfigure(errors="backslashreplace")


def begin_work() -> Any:
    """Treat errors from here on as failures; return the function to commit with."""
    context = click.get_current_context()
    context.meta[_AT_WORK] = True
    return context.obj


def _describe(error: BaseException) -> TwomError:
    if isinstance(error, TwomError):
        return TwomError(spell(error.problem), spell(error.remedy), error.code)
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "twom-dist"
        problem = " ".join(error.format_message().split()).rstrip(".")
        return TwomError(problem, f"See {command} --help", "usage")
    name = type(error).__name__
    unknown = (f"{name}: {error}", "Use --debug to see where", "unexpected")
    return TwomError(*_FOREIGN.get(name, unknown))


def _end(ctx: click.Context, error: BaseException) -> int:
    arguments, said = ctx.meta[ARGUMENTS], _describe(error)
    early = isinstance(error, TwomError | click.UsageError)
    early = early and not ctx.meta.get(_AT_WORK)
    code = REFUSED if early else _CODES.get(said.code, FAILED)
    if "--debug" in arguments:
        with suppress(OSError):
            traceback.print_exception(error)
    say("error: " + " ".join(str(said).splitlines()))
    if "--json" in arguments:
        about = {"error": said.problem, "remedy": said.remedy, "code": said.code}
        show(json.dumps({**about, "exit": code}), done=True)
    return code


def _warn_once(ctx: click.Context) -> Any:
    """Return what shows a warning of any thread, but none twice."""

    @cache
    def warn(text: str) -> None:
        with ctx.scope(cleanup=False):
            say(f"warning: {spell(text)}")

    return lambda message, *_: warn(" ".join(str(message).split()))


_STILL_LEAVING = b"twom-dist: cleaning up; once more ends it at once\n"


class Terminated(KeyboardInterrupt):
    """SIGTERM: leaves like Ctrl-C."""


@contextmanager
def handle_signals() -> Iterator[Callable[[], None]]:
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

    before = {name: signal.signal(name, leave) for name in signals}
    try:
        yield commit
    finally:
        for name, handler in before.items():
            # Python takes a moment to exit.
            signal.signal(name, signal.SIG_IGN if committed else handler)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Put off SIGTERM and Ctrl-C while worker processes start.

    Half-started workers cannot be closed in order.
    """
    noticed: list[int] = []
    before = {
        number: signal.signal(number, lambda n, _: noticed.append(n))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for put_off in noticed:
            signal.raise_signal(put_off)


class SentenceGroup(click.Group):
    """Commands whose errors are one line, and which signals end in order.

    While one runs, the context's object is the function of `handle_signals`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> Any:
        """Keep the arguments: errors ask for --json and --debug among them."""
        _open_standard_streams()
        ctx.meta[ARGUMENTS] = [*args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and end its errors in a line on stderr and an exit code."""
        if "--debug" not in ctx.meta[ARGUMENTS]:
            # dask's: the command says what went wrong. Until the process has ended,
            # since asyncio logs futures when they are discarded.
            logging.disable(logging.CRITICAL)
        with handle_signals() as ctx.obj, warnings.catch_warnings():
            warnings.showwarning = _warn_once(ctx)
            try:
                return super().invoke(ctx)
            except click.exceptions.Exit:
                raise
            except (Exception, KeyboardInterrupt) as error:
                raise click.exceptions.Exit(_end(ctx, error)) from error
