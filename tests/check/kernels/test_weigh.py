"""The numbers that mostly decide about a product, against those of the reference."""

from itertools import product

import numpy as np
import pytest

from tests.support.strategies import DTYPES, LAYOUTS, random_matrix, spread_matrix
from twom_dist.kernels import get_engine
from twom_dist.kernels.cpu.look import survey
from twom_dist.moduli import norm_bits, residue_system, scaling_rule

K = 12


def operands(dtype):
    """Yield pairs of matrices by what is in them."""
    plain, spread = random_matrix(40, K, dtype), spread_matrix(18, K, dtype)
    yield "plain", plain, 2 * plain[::-1][:20]
    yield "spread", spread, plain[:, ::-1]
    zeros = plain.copy()
    zeros[3], zeros[:, 4] = 0, 0
    yield "zeros", zeros, spread
    gaps = zeros.copy()
    gaps[1, 2], gaps[2, 3] = np.nan, np.inf
    yield "not finite", gaps, spread
    yield "nothing", np.zeros_like(plain), np.full_like(spread, np.nan)
    yield "tiny", (plain * np.finfo(dtype).tiny / 8).astype(dtype), plain
    ends = plain / abs(plain).max()
    ends[:, 0] *= np.finfo(dtype).max / 16
    ends[:, 1] *= np.finfo(dtype).tiny
    yield "both ends", ends, plain
    yield "many rows", random_matrix(260, 2, dtype), random_matrix(3, 2, dtype)
    yield "small", plain[:1, :1].copy(), plain[:2, :1].copy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_cpu_weighs_as_the_reference_does(monkeypatch, dtype):
    cpu, reference = map(get_engine, ("cpu", "reference"))
    method = "2m" if np.dtype(dtype).kind == "c" else "real"
    for name, x, y in operands(dtype):
        k = x.shape[1]
        bits, rule = norm_bits(k), scaling_rule(residue_system(method, 8), k)
        for own in ([x, y], [y]):
            expected = reference.weigh(own, bits, columns=True, rule=rule)
            error, looked = expected.largest_error(), expected.surveyed()
            for layout, nanoseconds in product(("C", "fortran"), (6, 10**6)):
                # Long rows are looked at in pieces.
                monkeypatch.setattr(survey, "_ENTRY", nanoseconds)
                given = [LAYOUTS[layout](t) for t in own]
                found = cpu.weigh(given, bits, columns=True, rule=rule)
                assert found.cosines == expected.cosines, name
                assert [*found.columns] == [*expected.columns], name
                assert found.largest_error() == error, name
                for one, other in zip(found.surveyed(), looked, strict=True):
                    assert all((a == b).all() for a, b in zip(one, other, strict=True))
                found = cpu.weigh(given, bits, columns=False, rule=rule)
                assert (found.cosines, found.columns) == (expected.cosines, None)
