"""Ways of the CPU's engine to multiply, each on every machine, in small blocks."""

from contextlib import ExitStack, contextmanager
from unittest import mock

from tests.support.amx import run_amx
from twom_dist.kernels.cpu import threads
from twom_dist.kernels.cpu.decode import decode
from twom_dist.kernels.cpu.encode import weighted_sums
from twom_dist.kernels.cpu.products import (
    macrokernel,
    microkernel,
    multiply,
    writer,
)
from twom_dist.kernels.cpu.products.amx_steps import CONFIGURATION
from twom_dist.kernels.cpu.products.writer import Writer

WAYS = ("amx", "microkernel")


@contextmanager
def take(way, longest=1 << 11):
    tiles = CONFIGURATION if way == "amx" else None
    changes = [
        (multiply, "select_tiles", lambda: tiles),
        (macrokernel, "LONGEST_SUM", longest),
        (macrokernel, "BLOCK_BYTES", 64 * 32),
        (macrokernel, "TILES_BYTES", 1 << 12),
    ]
    macrokernel._plan.cache_clear()
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(mock.patch.object(*change))
        if way == "amx":
            stack.enter_context(run_amx())
        yield
    macrokernel._plan.cache_clear()


@contextmanager
def half_vectors(features):
    """Have what is compiled meanwhile use vectors of AVX without VNNI."""
    changes = [
        (microkernel, "make_writer", lambda b: Writer(b, 8)),
        (weighted_sums, "make_writer", lambda b: Writer(b, 8)),
        (writer, "find_features", lambda: features),
        (writer, "count_lanes", lambda: 0),
    ]
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(mock.patch.object(*change))
        yield


@contextmanager
def bands_in_order(step):
    """Decode in as many pieces as there can be, one after the other, or the last first.

    `step`: 1 or -1.
    """

    def run_each(function, pieces, work=None):
        assert len(pieces) > 2
        for piece in list(pieces)[::step]:
            function(piece)

    decode._plan_tile.cache_clear()
    with (
        mock.patch.object(threads, "WORTHWHILE", 1),
        mock.patch.object(decode, "run_each", run_each),
        threads.limit_threads(2),
    ):
        yield
    decode._plan_tile.cache_clear()
