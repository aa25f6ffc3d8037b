"""Ways of the CPU's engine to multiply, each on every machine, in small blocks."""

from contextlib import ExitStack, contextmanager
from unittest import mock

from tests.support.amx import run_amx
from twom_dist.kernels.cpu import engine, threads
from twom_dist.kernels.cpu.decode import decode
from twom_dist.kernels.cpu.encode import encode, vnni
from twom_dist.kernels.cpu.products import blas, microkernel, multiply, packed
from twom_dist.kernels.cpu.products.amx_steps import CONFIGURATION
from twom_dist.kernels.cpu.products.microkernel import Writer

WAYS = ("amx", "microkernel", "float32", "loops")


@contextmanager
def take(way):
    vnni = way in ("amx", "microkernel")
    tiles = CONFIGURATION if way == "amx" else None
    changes = [
        *((module, "has_vnni", lambda: vnni) for module in (encode, engine, multiply)),
        (multiply, "select_tiles", lambda: tiles),
        (blas, "SMALLEST_GEMM", 0 if way == "float32" else 1 << 40),
        (packed, "LONGEST_SUM", 1 << 11),
        (packed, "BLOCK_BYTES", 64 * 32),
        (packed, "TILES_BYTES", 1 << 12),
    ]
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(mock.patch.object(*change))
        if way == "amx":
            stack.enter_context(run_amx())
        yield


@contextmanager
def half_vectors():
    """Have what is compiled meanwhile use vectors of AVX, by plain instructions."""
    with ExitStack() as stack:
        for module in (microkernel, vnni):
            change = module, "make_writer", lambda builder: Writer(builder, 8)
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
