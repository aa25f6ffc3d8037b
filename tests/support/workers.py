"""Workers that last for a session, for every test that does not harm them."""

from contextlib import ExitStack, chdir

import pytest

from tests.support.jobs import local_workers

GIB = 2**30


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    """Two workers in a folder of their own, for every test that does not harm them."""
    with ExitStack() as stack:
        # Not in the folder of the test that happens to be the first to ask.
        with chdir(tmp_path_factory.mktemp("workers")):
            made = stack.enter_context(local_workers(2, memory_limit=2 * GIB))
        yield made
