"""Ctrl-C and SIGTERM: their effect on a command, the first, second and third time."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

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
