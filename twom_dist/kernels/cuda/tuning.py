"""Tuned numbers of the CUDA engine, and the reason for each."""

from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Literal

from ..limits import Shape, mean_side

Element = Literal["int8", "float16"]
# products.cu, products_mma.cu by blocks of 256 x 128 or by squares, products_tile.py.
Products = Literal["wgmma", "mma256", "mma", "tile", "tile16"]
TILES: tuple[Products, ...] = "tile", "tile16"  # products_tile.py of int8, of float16


@dataclass(frozen=True, eq=False)
class Tuning:
    """Choices that depend on the device."""

    sums_bytes: int  # sums of one cuBLAS call, which the requantisation reads back
    # What multiplies and reduces, products.cu, products_mma.cu or products_tile.py,
    # that of large matrices first; cuBLAS and requantise.cu do if there is none.
    products: tuple[Products, ...] = ()
    element: Element = "int8"  # what cuBLAS multiplies: sums are int32, or float32
    integer_sums: bool = False  # whether digits are integers in decode.cu, not doubles
    cublas_from: float = inf  # the `mean_side` from which cuBLAS multiplies

    @property
    def of_samples(self) -> tuple[Products, ...]:
        """Name what multiplies samples: mma.sync, too, where planes go another way."""
        return tuple(x for x in self.products if x in ("wgmma", "mma")) or ("mma",)

    def fuses(self, shape: Shape) -> bool:
        """Tell whether one kernel multiplies and reduces."""
        return bool(self.products) and mean_side(shape) < self.cublas_from


# By compute capability. 90 on an H200: 128 MB of sums gave the shortest products of
# 8192 and 16384, and took 6 % more than 64 MB at 4096; with 32 MB 16384 took a third
# more. The others by arithmetic, not measured: sums that fit L2 (6, 40, 6, 96, 126 and
# 96 MB of the largest chips) where that leaves some 256 tiles of 128 x 256. The tensor
# cores of 103 (B300) take int8 at a thirtieth of the rate of 100, float16 at the same;
# 110 is as 100. products_mma.cu by arithmetic as well: where mma.sync has the full rate
# of the tensor cores, it spares 9 bytes a residue; 90 has half of that rate, 100 to 110
# far less. A multiprocessor of 75, 86, 89, 103 and 120 has 2 double units, and 64 for
# integers.
BY_CAPABILITY = {
    75: Tuning(sums_bytes=8 << 20, products=("mma",), integer_sums=True),
    80: Tuning(sums_bytes=32 << 20, products=("mma256", "mma")),
    86: Tuning(sums_bytes=8 << 20, products=("mma256", "mma"), integer_sums=True),
    89: Tuning(sums_bytes=32 << 20, products=("mma256", "mma"), integer_sums=True),
    90: Tuning(sums_bytes=128 << 20, products=("wgmma", "mma")),
    100: Tuning(sums_bytes=64 << 20, products=("tile",)),
    103: Tuning(64 << 20, ("tile16",), element="float16", integer_sums=True),
    110: Tuning(sums_bytes=64 << 20, products=("tile",)),
    120: Tuning(sums_bytes=48 << 20, products=("mma256", "mma"), integer_sums=True),
}


def tuning_for(capability: int) -> Tuning:
    """Return the numbers of the newest capability that is not newer.

    >>> [tuning_for(x) is BY_CAPABILITY[x // 10 * 10] for x in (101, 110, 121)]
    [True, True, True]
    >>> tuning_for(87) is BY_CAPABILITY[86]  # Orin
    True
    >>> tuning_for(103).element
    'float16'
    """
    found = MEASURED.get(capability) or BY_CAPABILITY.get(capability)
    if found is not None:
        return found
    known = [t for t in BY_CAPABILITY if t <= capability]
    return BY_CAPABILITY[max(known, default=min(BY_CAPABILITY))]


MEASURED: dict[int, Tuning] = {}  # by the capability of a device that was measured


def set_cublas(capability: int, size: float) -> bool:
    """Have cuBLAS multiply from a size on; False where our kernel is always faster."""
    own = tuning_for(capability)
    if "wgmma" in own.products:
        return False
    MEASURED[capability] = _with_cublas(capability, size)
    return True


@cache
def _with_cublas(capability: int, size: float) -> Tuning:
    # Each size has one object, since devices are told apart by it.
    return replace(tuning_for(capability), cublas_from=size)


# What a block takes, by the side of the squares that are made: of 128 x 256 on Hopper,
# of 256 x 128, of 128 x 128, of 64 x 64. By arithmetic, not measured: that of 64 waits
# for the shared memory of an A100, and one of Hopper's, at twice the rate of mma.sync,
# would take 6. With 4 it gives way where half as much again is expected. L2 seems to
# limit squares of 128; of 256 x 128 a quarter less is read. In cuTile a multiprocessor
# makes half of 256 x 256, and reads half as many bytes an operation as for 128 x 128.
BLOCK_TIMES: dict[tuple[Products, int], int] = {
    **{("wgmma", 256): 4, ("mma256", 256): 9, ("mma", 128): 6, ("mma", 64): 2},
    **{(name, side): t for name in TILES for side, t in ((256, 5), (128, 3))},
}
# Bytes along k that a block of 256 x 128 could multiply while it waits for its first
# tiles and reduces its sums, and no other one is there to multiply: about 4000 clocks,
# by arithmetic for an A100.
ALONE_K = 256

# Bytes along k of samples that a block multiplies at least: by arithmetic it reads 2^17
# bytes or more of 64 rows then, and adds 2^15 of sums.
SHORTEST_SHARE = 1 << 11

# Elements along k that one thread reduces in the norm pass, before its one atomic. Both
# passes over 4096 x 4096, rows along memory, on an H200: 267 us for 8, 217 for 32, 192
# for 64, 221 for 128. Smaller operands take shorter ones, until there are so many
# blocks: by 64 each pass over 1024 x 1024 took 36 to 50 us on an H100, half as long as
# one over four times as much.
STRIP, SHORTEST_STRIP, STRIP_BLOCKS = 64, 8, 512

FINGERPRINT_SLOTS = 1024  # words over which the atomics of a fingerprint are spread

# Limits of planes, residues and sums if the setting workspace-bytes is null: a share of
# the device, which holds A, B and C as well, and a share of its free memory, since free
# blocks do not all fit and C may come later. Products below the last share do not ask
# for the free memory: the driver's answer may take 1 ms, and they take little longer
# themselves. By reasoning; not measured.
WORKSPACE_SHARE = 0.5
FREE_SHARE = 0.8
UNASKED_SHARE = 1 / 32

# Operations of a launch of products for each multiprocessor: about 5 ms, after which
# kernels of other streams, such as those that send, get a turn. At 1464 Tera-operations
# a second on an H200 of 132 a multiprocessor makes 1.1e13; by arithmetic half as many
# on an A100 (624 and 108), an RTX 4090 (660 and 128) and an RTX 5090 (838 and 170);
# nearly twice as many on a B200 (3000 and 148), half of that of float16 on a B300.
LAUNCH_OPERATIONS: dict[Products, float] = {
    **{"wgmma": 5.5e10, "mma256": 2.5e10, "mma": 2.5e10, "tile": 1e11, "tile16": 5e10},
}

# Length of k along which multiplying a whole product takes as long as deriving a
# triangle of it from another product. On an H200, n = 8192: 1.01 ms for both triangles
# of 16 products; 25.2 ms for multiplying 32 along k = 8192.
DERIVED_K = 330

# Side of the tiles of rank-k updates without a half form: T x T tiles waste 1/(2T).
UPDATE_TILES = 8
SMALLEST_UPDATE_TILE = 2048

# Rows of a block of threads that writes K-major bytes, whose rows lie along memory, and
# across it. On an H200 encoding 16384 x 16384 across took 14.5, 12.3, 7.1, 4.3, 4.2 ms
# for 64, 32, 16, 8, 4 rows, whose writes are lines of 1024 / rows bytes; along it took
# 3.7 to 3.8 ms for any number.
ROWS_ALONG, ROWS_ACROSS = 4, 8

# Blocks of scale_and_encode.cu on a multiprocessor, if it keeps several rows for each:
# all whose registers fit, so that some encode while others wait at a barrier. By
# arithmetic, not measured: an H200 reads 4.2 TB/s if a multiprocessor has 22 KB under
# way for 700 ns; here all of their rows may be, three of 64 KB at k = 4096.
BLOCKS_AT_ONCE = 4

# Harmonic means of m, n, k from which a level of Winograd's algorithm pays, and bytes
# of quarters that are made before the next products' take their place. Products of 16
# moduli on two H200 took 1.19 of the time at 8192, 0.98 to 1.06 at 12288, 0.89 at
# 16384, 0.85 at 20480, with 2^29 bytes, which were 0.98 to 1.10 times as fast as 2^28
# and 2^30. Of products by mma.sync the quarters' bytes take as long as they spare even
# at 16384, by arithmetic for an RTX 5080.
CROSSOVERS: dict[str, tuple[float, ...]] = {"wgmma": (13800.0,)}
QUARTERS_BYTES = 1 << 29
