"""The stages of a product, one after the other, and how they are compared."""

from math import prod

import numpy as np

from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.planes import DEPTH, GROUP, CpuEncoded
from twom_dist.kernels.reference.engine import ReferenceEncoded
from twom_dist.moduli import scaling_rule

REFERENCE = get_engine("reference")
# (method, moduli) with 1 to 6 words; and of those one word and more, every kind, ends.
SYSTEMS = (
    *(("2m", n) for n in (1, 2, 8, 16, 17, 22)),
    *(("3m", n) for n in (1, 15, 16, 30, 49)),
    *(("4m", n) for n in (11, 20, 30, 49)),
    *(("hybrid", n) for n in (22, 30, 49)),
    *(("real", n) for n in (1, 8, 15, 16, 30, 49)),
)
USUAL = (
    *(("2m", 1), ("2m", 16), ("2m", 22), ("3m", 15), ("3m", 49), ("4m", 20)),
    *(("4m", 30), ("hybrid", 49)),
    *(("real", 1), ("real", 8), ("real", 15), ("real", 49)),
)


def dtype_for(kind, single=False):
    double, other = ("f8", "f4") if kind == "real" else ("c16", "c8")
    return np.dtype(other if single else double).name


def residues_of(encoded):
    """(planes, ..., rows, k) symmetric residues, which engines order as they like."""
    if isinstance(encoded, ReferenceEncoded):
        return encoded.planes
    if not hasattr(encoded, "order"):  # on a device beside
        return encoded.residues()
    planes = encoded.planes
    *stack, rows, k = encoded.shape
    height, width = planes.shape[1] // max(1, prod(stack)), planes.shape[2]
    if isinstance(encoded, CpuEncoded):
        planes, height, width = planes.swapaxes(2, 3), height * GROUP, width * DEPTH
    planes = planes[list(encoded.order)]
    return planes.reshape(len(planes), *stack, height, width)[..., :rows, :k]


def run_stages(engine, x, y, system, *, conjugate=False):
    """Every stage of ``X Y^T`` (Y conjugated if asked to), by name."""
    rule = scaling_rule(system, x.shape[-1])
    assert rule is not None
    stages = {}
    encoded = {}
    for side, z in (("left", x), ("right", y)):
        largest, sums = engine.measure(z, rule.norm_bits, ("squares",))[:2]
        exponents = engine.choose_exponents(largest, sums, rule)
        flip = conjugate and side == "right"
        tile = engine.encode(z, exponents, system, conjugate=flip)
        assert tile.shape == z.shape
        assert tile.nbytes >= len(system.planes) * z.size
        stages |= {f"{side} largest": largest, f"{side} sums": sums}
        stages |= {f"{side} exponents": exponents, f"{side} planes": residues_of(tile)}
        encoded[side] = tile
    residues = engine.multiply(encoded["left"], encoded["right"], system)
    exponents = stages["left exponents"], stages["right exponents"]
    stages["residues"] = residues[..., : y.shape[-2]]
    stages["C"] = engine.decode(residues, *exponents, system, x.dtype)
    if x.dtype.char in "dD":
        given = residues, *exponents, system, x.dtype
        stages["pair"] = engine.decode(*given, components=2)
    return stages


def add_both_ways(engine, left, right, system, before, **options):
    """Add a product to residues that nobody may write to, and then in their place."""
    given, own = before.copy(), before.copy()
    given.flags.writeable = False
    found = engine.multiply(left, right, system, given, **options)
    assert not np.shares_memory(found, given)
    assert (given == before).all()
    assert found.shape == before.shape
    again = engine.multiply(left, right, system, own, overwrite=True, **options)
    assert again is own
    return [found, again]
