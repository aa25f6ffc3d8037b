"""Tiles whose planes, residues and sums fit the memory they may take."""

from dataclasses import replace

from ...config import bytes_setting, setting
from ...errors import MemoryLimitError
from ...moduli import ResidueSystem
from ..device_memory import count_sharers, workspace_share
from ..limits import Shape, TileLimits, Update
from . import tuning
from .cublas import align, choose_widened_k, cut_sums, widened_bytes
from .device import CudaDevice
from .hopper import LINE, ROW_GROUP
from .launch import remember

_SMALLEST_TILE = 256


def workspace_bytes(total: int) -> int:
    """Read the setting; a share of the device where it is null."""
    if setting("workspace-bytes") is None:
        return int(total * tuning.WORKSPACE_SHARE)
    return bytes_setting("workspace-bytes")


def available_bytes(device: CudaDevice, needed: int) -> int:
    """Limit the workspace of a product that would take `needed` bytes.

    A second attempt gets half of it, or half of `needed` if that is less, but larger
    than `UNASKED_SHARE` of the device.
    """
    total = device.total_bytes()
    limit, unasked = workspace_bytes(total), unasked_bytes(device)
    if setting("workspace-bytes") is None and needed > unasked:
        free = device.free_bytes()
        # Where free memory is unknown, each task may find the whole limit taken.
        share = limit // count_sharers() if free is None else free * tuning.FREE_SHARE
        limit = min(limit, max(unasked, int(share)))
    second = workspace_share()
    return limit if second == 1 else int(second * min(limit, max(needed, unasked)))


def unasked_bytes(device: CudaDevice) -> int:
    """Bytes that a product takes without asking for what is free."""
    return int(device.total_bytes() * tuning.UNASKED_SHARE)


def sums_bytes(capability: int) -> int:
    """Bytes of the sums of one call of cuBLAS: at most a quarter of what is allowed."""
    tuned = tuning.tuning_for(capability)
    if setting("workspace-bytes") is None:
        return tuned.sums_bytes
    return min(tuned.sums_bytes, bytes_setting("workspace-bytes") // 4)


@remember
def working_bytes(
    system: ResidueSystem,
    shape: Shape,
    sums: int,
    update: Update | None = None,
    element: tuning.Element = "int8",
) -> int:
    """Bytes of one tile product besides its operands and its result.

    They are the planes of both sides, residues, marks of non-finite entries, sums, and
    planes in float16 for one call. A rank-2k update has two of each, apart from those
    of a call, and every update has the tile itself.
    """
    widened, (m, n, k) = 0, shape
    if element == "float16":
        widened_k = choose_widened_k(system, k, element)
        cut = cut_sums(m, n, sums, 1, widened_k)
        cut = replace(cut, products=min(cut.products, system.num_products))
        widened = widened_bytes(cut, n, widened_k)
    m, n, k = align(m, ROW_GROUP), align(n, ROW_GROUP), align(k, LINE)
    if system.wraps:
        widened = 2 * system.plane_bytes * n * k  # Y as both parts take it
    twice = 2 if update is not None and update.two else 1
    planes = twice * system.plane_bytes * (m + n) * k
    sums = sums and max(sums, 4 * min(256, m) * n)
    residues = system.entry_bytes * m * n
    tiles = 0 if update is None else 16 * (1 + twice) * m * n
    called = min(sums, 4 * system.num_products * m * n) + widened
    return planes + twice * (residues + m * n) + called + tiles


@remember
def fit_tiles(
    system: ResidueSystem,
    shape: Shape,
    limit: int,
    sums: int,
    update: Update | None = None,
    element: tuning.Element = "int8",
) -> TileLimits:
    """Choose the largest tiles that fit, halving what takes the most.

    A quarter of `limit` is for encoded tiles that wait for reuse, where there is more
    than one tile. `sums`: bytes of those of one call. Refused if no tile of 256 fits.
    """
    mb, nb, kb = (max(1, size) for size in shape)
    if update is not None and not update.halves:
        side = max(tuning.SMALLEST_UPDATE_TILE, -(-mb // tuning.UPDATE_TILES))
        mb = nb = min(mb, side)
    given = sums, update, element
    if (mb, nb, kb) == shape and working_bytes(system, shape, *given) <= limit:
        return TileLimits(mb, nb, kb, limit)
    while working_bytes(system, (mb, nb, kb), *given) > limit - limit // 4:
        planes = system.plane_bytes * (mb + nb) * kb
        if max(mb, nb, kb) <= _SMALLEST_TILE:
            needed = working_bytes(system, (mb, nb, kb), *given) * 4 // 3
            raise MemoryLimitError(
                f"a tile of {mb} x {nb} x {kb} needs {needed:,} bytes of workspace, "
                f"more than the limit of {limit:,}",
                "Raise twom-dist.workspace-bytes in dask.config",
                "workspace",
            )
        if kb > _SMALLEST_TILE and planes > system.entry_bytes * mb * nb:
            kb = -(-kb // 2)
        elif update is not None or mb == nb:
            mb = nb = max(1, -(-mb // 2))
        elif mb > nb:
            mb = -(-mb // 2)
        else:
            nb = -(-nb // 2)
    return TileLimits(mb, nb, kb, limit // 4)
