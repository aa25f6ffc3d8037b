"""Products are prepared once, and the one that was used least recently is forgotten."""

import numpy as np

import twom_dist as td
from twom_dist.run import prepared


def test_the_product_that_was_used_least_recently_goes_first(monkeypatch):
    monkeypatch.setattr(prepared, "_prepared", {})
    monkeypatch.setattr(prepared, "_MOST", 2)
    for n in (3, 4, 3, 5):
        td.gemm(np.eye(n), np.eye(n))
    kept = {shape[0] for key in prepared._prepared for shape, _ in key[2:4]}
    assert kept == {3, 5}
