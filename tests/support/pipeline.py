"""The stages of a product, one after the other, and how they are compared."""

import numpy as np

from twom_dist.kernels import get_engine
from twom_dist.moduli import scaling_rule

REFERENCE = get_engine("reference")


def dtype_for(kind, single=False):
    double, other = ("f8", "f4") if kind == "real" else ("c16", "c8")
    return np.dtype(other if single else double).name


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
        stages |= {f"{side} exponents": exponents, f"{side} planes": tile.residues()}
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
