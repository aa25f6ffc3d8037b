"""The fingerprint kernel: the same for equal matrices, another for others."""

import numpy as np
import pytest

from tests.support.cuda.operands import LAYOUTS
from tests.support.strategies import DTYPES, random_matrix


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_and_cuts_do_not_matter(calls, dtype):
    x = random_matrix(37, 75, dtype)
    found = {
        calls.fingerprint(lay(x), across)
        for lay in LAYOUTS.values()
        for across in (0, 1)
    }
    found |= {calls.fingerprint(x, span=span) for span in (1, 9, 1000)}
    assert len(found) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_change_is_seen(calls, dtype):
    x = random_matrix(13, 40, dtype)
    variants = [
        x,
        -x,
        2 * x,
        x[::-1],
        x[:, ::-1],
        np.roll(x, 1, axis=1),
        0 * x,
        x.conj(),
    ]
    for i, j in ((0, 0), (5, 17), (12, 39)):
        for value in (np.nextafter(x[i, j].real, 1), -x[i, j], 0, np.inf):
            y = x.copy()
            y[i, j] = value
            variants.append(y)
    y = x.copy()
    y[[0, 1], [3, 8]] = y[[1, 0], [8, 3]]
    variants.append(y)
    bits = {v.tobytes() for v in variants}
    assert len({calls.fingerprint(v) for v in variants}) == len(bits)


def test_signs_of_two_entries_do_not_cancel(calls):
    rng = np.random.default_rng(5)
    x = random_matrix(13, 40, "float64")
    found = {calls.fingerprint(x)}
    pairs = {tuple(sorted(rng.choice(x.size, 2, replace=False))) for _ in range(200)}
    for pair in pairs:
        y = x.copy()
        y.flat[list(pair)] *= -1
        found.add(calls.fingerprint(y))
    assert len(found) == 1 + len(pairs)
