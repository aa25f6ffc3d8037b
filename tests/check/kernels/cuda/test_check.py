"""The check of tensor cores: what is not exact on a chip is not taken."""

from unittest import mock

import numpy as np

from tests.support.cases import cases
from tests.support.cuda.host_device import HostDevice
from tests.support.cuda.host_tiles import tiles
from tests.support.expect import raises
from twom_dist.errors import KernelError
from twom_dist.kernels.cuda import tile_check, tuning
from twom_dist.kernels.cuda.cublas import choose_exact
from twom_dist.kernels.cuda.engine import take_measured
from twom_dist.kernels.cuda.packing import pack
from twom_dist.workers import diagnosis


class Chip(HostDevice):
    """A device whose products of one type go wrong in some way."""

    def __init__(self, **faults):
        super().__init__(None, 103)
        self.faults = faults

    def multiply(self, x, y, sums):
        super().multiply(x, y, sums)
        self.faults.get(str(x.dtype), lambda _: None)(sums)


def refuse(_):
    raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED")


def lose_a_bit(sums):
    """Keep 23 bits, as accumulators may that align products before they add."""
    sums[...] = np.trunc(sums / 2) * 2


def saturate(sums):
    np.minimum(sums, (1 << 30) - 1, out=sums)


def of_shape(shape):
    """Be wrong for some shapes alone: ragged, long, or of a batch."""

    def add_one(sums):
        if sums.shape == shape:
            sums[-1, -1, -1] += 1

    return add_one


def test_what_is_exact_is_taken():
    for element, fault, taken in (
        ("int8", saturate, "float16"),
        ("int8", of_shape((1, 272, 1040)), "float16"),
        ("float16", lose_a_bit, "int8"),
    ):
        assert choose_exact(Chip(**{element: fault}), element) == taken
    with raises(KernelError, "no-exact-product"):
        choose_exact(Chip(int8=lose_a_bit, float16=refuse), "int8")


class TileChip(HostDevice):
    """A device that has an old driver, or does not compile Tile IR, or wrongly."""

    def __init__(self, driver=13030, error=None, wrong=0):
        super().__init__(None, 110)
        self.driver, self.error, self.wrong = lambda: driver, error, wrong

    def launch(self, module, name, grid, block, args, shared=0):
        if self.error:
            raise self.error
        packed = pack(module.family, name, args, lambda x, _: x.ctypes.data)
        tiles().launch(module, grid, block, *packed, shared)
        residues = args[5][0]
        residues[..., 3] += self.wrong


@cases(
    ("fault", "told"),
    [
        ({}, None),
        ({"driver": 13020}, "the driver knows CUDA 13.2, and Tile IR needs 13.3"),
        ({"error": RuntimeError("JIT\ncompiler not found")}, "JIT compiler not found"),
        ({"error": MemoryError("the device is full")}, "the device is full"),
        ({"wrong": 1}, "1200 residues are wrong"),
    ],
)
def test_cublas_multiplies_where_tile_ir_fails(fault, told):
    device = TileChip(**fault)
    with (
        mock.patch.dict(tile_check._found, clear=True),
        mock.patch.multiple(tile_check, _SHAPES=tile_check._SHAPES[:1]),
        mock.patch.dict(tuning.MEASURED),
    ):
        assert take_measured(device=device) == (told is None)
        assert tuning.tuning_for(110).fuses((9, 9, 9)) == (told is None)
        found = [*diagnosis.check_tiles(device)]
    assert [(x.status, x.found) for x in found] == (
        [] if told is None else [("warning", f"by cuBLAS: {told}")]
    )
