"""Here no test starts a process or listens on a port: each takes moments, anywhere."""

import sys
import threading

import pytest

# The events of Python's audit hooks; "bind" comes before each port that listens.
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
FORBIDDEN = STARTS | {"os.exec", "socket.bind"}
# Programs that Python and NumPy start to know the machine.
ASKED = ("uname", "ldconfig", "lscpu")


class Watch:
    """Threads of clusters, as a test of this folder begins; None between such tests."""

    others: frozenset[threading.Thread] | None = None


def look(event, arguments):
    """Fail the test that does what only tests in other folders may."""
    if event not in FORBIDDEN or Watch.others is None:
        return
    asked = str(arguments[0]).endswith(ASKED) if event == "subprocess.Popen" else False
    if not asked and threading.current_thread() not in Watch.others:
        pytest.fail(f"{event}{arguments[:2]}: such tests are in tests/run")


sys.addaudithook(look)


@pytest.fixture(autouse=True)
def starts_nothing():
    """Watch from here to the end of the test; clusters of other tests may go on."""
    main = threading.main_thread()
    Watch.others = frozenset(x for x in threading.enumerate() if x is not main)
    yield
    Watch.others = None
