"""Copies that dask makes of graphs: with keys of their own, bound to other work."""

import dask
import dask.array as da
import numpy as np
from dask.graph_manipulation import clone, wait_on

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.stages import count_stages
from tests.support.strategies import random_matrix

x = random_matrix(24, 24, seed=3)
RESULTS = {
    "gemm": lambda y: td.gemm(y, y),
    "added": lambda y: td.gemm(y, y, y, beta=2, num_moduli=14),
    "lower": lambda y: td.herk(y, uplo="lower"),
    "sum": lambda y: td.syr2k(y, y, accuracy="componentwise").sum(),
    "digits": lambda y: td.twofold.gemm(y, y)[0],
    "of a product": lambda y: td.herk(td.gemm(y, y)),
    "nothing": lambda y: td.gemm(y, y, alpha=0),
}


@cases("how", ["hold", "stream"])
@cases("result", RESULTS)
def test_a_clone_is_the_same_under_other_keys(result, how):
    way = "hold" if result == "of a product" else how
    with dask.config.set({"twom-dist.inputs": way}):
        y = da.from_array(x, chunks=13).map_blocks(np.copy)
        lazy = RESULTS[result](y)
    copies = clone(lazy), clone(lazy, omit=y), wait_on(lazy), clone(clone(lazy))
    expected, *found = dask.compute(lazy, *copies, scheduler="sync")
    assert all(same_bits(x, expected) for x in found)
    keys = ({k for k in dict(z.dask) if k[0][:5] == "twom-"} for z in (lazy, *copies))
    first, second, *_ = keys
    assert first.isdisjoint(second)
    # Placement takes tasks of one token for those of one product.
    own, copied = ({name.rpartition("-")[2] for name, *_ in k} for k in (first, second))
    assert len(own) == len(copied)
    assert count_stages(copies[0]) == count_stages(lazy)
