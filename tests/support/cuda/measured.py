"""A machine where `tune` finds that cuBLAS outruns our kernel, by a stand-in clock."""

from contextlib import contextmanager
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from unittest import mock

import dask
import numpy as np

import twom_dist as td
from twom_dist.api import crossovers
from twom_dist.auto import choose
from twom_dist.auto.chips import Chip
from twom_dist.kernels.chip_files import PRODUCTS
from twom_dist.kernels.cuda import engine as engine_module
from twom_dist.kernels.cuda import tuning
from twom_dist.run import prepared


def take_measured(cuda, size=None):
    """Read the file of the chip, or take a size; of CuPy's arrays keys differ then."""
    prepared._prepared.clear()
    return engine_module.take_measured(size, cuda.device)


def cublas_from(capability):
    """Return the size from which cuBLAS multiplies on devices of a capability."""
    return tuning.tuning_for(capability).cublas_from


@contextmanager
def tuned(cuda, folder):
    """Measure where cuBLAS needs more time for a call, and half for an operation.

    It outruns our kernel from 40000 operations on, 34 x 34 x 34. Gives what `tune`
    returns, and the size.
    """
    device, clock = cuda.device, SimpleNamespace(now=0.0)

    def gemm(a, b, **options):
        device.launched.clear()
        td.gemm(a, b, **options)
        ours = bool({"products_mma", "products_tile"} & {*device.launched})
        clock.now += len(a) ** 3 if ours else 20000 + len(a) ** 3 / 2

    take = partial(take_measured, cuda)
    with (
        mock.patch.multiple(
            crossovers,
            SIDES=(16, 32, 48, 64),
            SECONDS=1e9,
            KINDS=(),
            _ROUTINES={"gemm": gemm},
            get_engine=lambda name: cuda,
            load_engine=lambda name: SimpleNamespace(take_measured=take),
            chip_of=lambda name: Chip(device.name(), device.capability()),
            perf_counter=lambda: clock.now,
            read_clocks=lambda: (perf_counter(), 0.0),  # of an idle machine
            _library=lambda name: (np, lambda: None),
        ),
        mock.patch.dict(tuning.MEASURED),
        dask.config.set({"twom-dist.crossovers": str(folder)}),
    ):
        found = td.tune("cuda")
        prepared._prepared.clear()
        yield found, found.sizes.get(PRODUCTS)
    choose.forget()
