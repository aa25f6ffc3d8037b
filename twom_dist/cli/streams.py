"""Output of the commands: the answer on stdout, and what happens on stderr."""

import os
import sys
from contextlib import suppress
from typing import Any


def write_error(text: str) -> None:
    """Write on stderr at once; where that fails, nothing is shown from then on."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def say(sentence: str) -> None:
    """Print a line on stderr."""
    write_error(f"twom-dist: {plain(sentence)}\n")


def plain(text: str) -> str:
    """Spell out what a terminal would obey, such as a sequence in a file's name."""
    return "".join(x if x.isprintable() else ascii(x)[1:-1] for x in text)


def show(answer: object, *, done: bool = False) -> None:
    """Print on stdout, whose reader may have seen enough.

    `done`: after what was asked for, so that no error of printing is a failure.
    """
    text = "\n".join(map(plain, str(answer).split("\n")))
    try:
        print(text, flush=True)
    except UnicodeEncodeError:
        # The terminal's encoding lacks a character of some name.
        print(text.encode("ascii", "backslashreplace").decode(), flush=True)
    except OSError as error:
        discard(sys.stdout)
        if not done and not isinstance(error, BrokenPipeError):
            raise


def discard(stream: Any) -> None:
    """Send a stream nowhere, and its buffer, which Python flushes when it exits."""
    with suppress(OSError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def open_standard_streams() -> None:
    """Open what was closed of stdin, stdout and stderr.

    A file would get its number, and with it what anybody writes there.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
