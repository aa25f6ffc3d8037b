"""Products of dask arrays: lazy, ordinary arrays; tiles encoded and products kept."""

import gc

import dask
import dask.array as da
import numpy as np
import pytest

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.machine import a_machine
from tests.support.strategies import random_matrix
from twom_dist.errors import PlanError
from twom_dist.run import prepared
from twom_dist.tiles.cache import encoded_tiles

M, N, K = 23, 19, 31
A, B, C = (random_matrix(*x, seed=s) for s, x in enumerate([(M, K), (K, N), (M, N)]))
OPTIONS = {"alpha": 0.5 - 2j, "beta": -1.5}


def lazily(*arrays):
    return [da.from_array(x, chunks=8) for x in arrays]


@cases(
    ("a", "b"),
    [("float32", "complex128"), ("int16", "float32"), ("complex64", "float64")],
)
def test_results_are_ordinary_dask_arrays(a, b):
    left, right = (20 * A.real).astype(a), (20 * B.real).astype(b)
    expected = td.gemm(left, right)
    found = td.gemm(*lazily(left, right))
    assert found.chunks == ((8, 8, 7), (8, 8, 3))
    assert type(found._meta) is np.ndarray
    assert found.dtype == found._meta.dtype == expected.dtype
    assert same_bits(found[3:9, [1, 17]].compute(), expected[3:9, [1, 17]])
    assert np.allclose(found.sum().compute(), expected.sum())
    assert same_bits(found.persist().compute(), expected)


@cases("panel_bytes", [1, "1 GiB"])
def test_infinities_of_every_tile_along_k_count(panel_bytes):
    a, b, c = (x.copy() for x in (A, B, C))
    a[3, 2], a[3, 30], a[4, 9], a[22, 17] = np.inf, -np.inf, np.inf, np.nan
    b[0, 5], b[16, 18], c[7, 7] = complex(0, np.inf), np.nan, np.nan
    expected = td.gemm(a, b, c, beta=1)
    bad = np.zeros((M, N), bool)
    bad[[3, 4, 22]], bad[:, [5, 18]], bad[7, 7] = True, True, True
    assert (np.isfinite(expected) == ~bad).all()
    with dask.config.set({"twom-dist.panel-bytes": panel_bytes}):
        found = td.gemm(*lazily(a, b, c), beta=1).compute(scheduler="sync")
    assert np.array_equal(found, expected, equal_nan=True)


def test_nothing_is_computed_while_the_graph_is_built():
    def fail(*args, **kwargs):
        raise RuntimeError("this was computed")

    meta = np.empty((0, 0), "complex128")
    a, b, c = (
        da.zeros((20, 20), dtype=complex, chunks=c).map_blocks(fail, meta=meta)
        for c in ((7, 5), (4, 20), (6, 6))
    )
    stack = da.ones((4, 6, 6), chunks=(2, 3, 3)).map_blocks(fail, dtype=float)
    with dask.config.set(scheduler=fail):
        found = td.gemm(a, b, c, alpha=2, beta=1j, op_a="T")
        found = td.syr2k(td.gemm(found, np.eye(20)), c)
        td.herk(found), td.plan(td.gemm, a, b, op_a="T"), td.syrk(stack)
        repr(found)
    with pytest.raises(RuntimeError, match="this was computed"):
        found.compute(scheduler="sync")


def test_names_follow_from_what_defines_the_product():
    a, b, c = lazily(A, B, C)
    name = td.gemm(a, b, c, beta=1).name
    assert td.gemm(a, b, c, beta=1).name == name
    others = [
        td.gemm(a, b).name,
        td.gemm(a, b, c, beta=2).name,
        td.gemm(a, b, c, beta=1, num_moduli=15).name,
        td.gemm(a + 0, b, c, beta=1).name,
        td.gemm(a.rechunk({0: 23}), b, c, beta=1).name,
    ]
    assert len({name, *others}) == 6


@cases(("cores", "figures"), [(2, (93, 123, 55, 120)), (16, (196, 229, 83, 168))])
def test_tasks_of_a_slice_are_those_of_the_docs(cores, figures):
    """In docs/scaling-out.md: it looks at everything unless moduli are given."""
    a, b = (da.random.random((600, 600), chunks=100) for _ in range(2))
    with a_machine(cores=cores):
        products = td.gemm(a, b), td.gemm(a, b, num_moduli=16)
    tasks = [dict(dask.optimize(x)[0].dask) for c in products for x in (c[:100], c)]
    # An alias is no task.
    found = [sum(type(t).__name__ != "Alias" for t in x.values()) for x in tasks]
    assert tuple(found) == figures


@cases(("panel_bytes", "budget"), [(1, "1 MB"), ("1 GiB", "1 MB"), (1, 20_000), (1, 0)])
def test_each_tile_is_encoded_once_within_the_budget(panel_bytes, budget):
    given, tiles = lazily(A, B, C), 3 * 3 * 4
    encoded_tiles.clear()
    sizes = {"twom-dist.panel-bytes": panel_bytes, "twom-dist.cache-bytes": budget}
    with dask.config.set(sizes):
        found = td.gemm(*given, **OPTIONS).compute(scheduler="threads")
        assert encoded_tiles.nbytes <= dask.utils.parse_bytes(budget)
    assert same_bits(found, td.gemm(A, B, C, **OPTIONS))
    # Without any nobody asks it.
    cache = encoded_tiles
    assert cache.encoded + cache.reused == (2 * tiles if budget else 0)
    assert budget != "1 MB" or cache.encoded == 3 * 4 + 4 * 3
    del given, found
    gc.collect()
    assert (len(encoded_tiles), encoded_tiles.nbytes) == (0, 0)


def test_a_cached_tile_serves_only_what_it_was_encoded_for(engine_name):
    """One array lives on; products with it differ in each part of a cache key."""
    x = random_matrix(9, 13)
    a = da.from_array(x, chunks=(4, 6)).persist(scheduler="sync")
    both = (a, x), (da.concatenate([a, 4 * a], axis=1), np.hstack([x, 4 * x]))
    for options in (
        {"num_moduli": 16},
        {"num_moduli": 15},
        {"method": "3m", "num_moduli": 15},
    ):
        for op in "TC":
            for lazy, array in both:
                expected = td.gemm(array, array, op_b=op, **options)
                found = td.gemm(lazy, lazy, op_b=op, engine=engine_name, **options)
                assert same_bits(found.compute(scheduler="sync"), expected)


@cases(
    "settings",
    [
        {"twom-dist.refuse-memory": "maybe"},
        {"twom-dist.panel-bytes": "1e400"},
        {"twom-dist.cache-bytes": "1e400"},
        {"twom-dist.inputs": "sometimes"},
        *({"twom-dist": x} for x in (None, [], 3, "all")),
    ],
)
def test_a_wrong_setting_is_refused_before_it_counts(settings):
    x = da.ones((6, 6), chunks=3)
    with dask.config.set(settings):
        for ask in (td.herk, lambda y: td.plan(td.herk, y)):
            with raises(PlanError, "setting"):
                ask(x)
        if "twom-dist" in settings:
            with raises(PlanError, "setting"):
                td.gemm(np.ones((3, 3)), np.ones((3, 3)))


def test_the_product_that_was_used_least_recently_goes_first(monkeypatch):
    monkeypatch.setattr(prepared, "_prepared", {})
    monkeypatch.setattr(prepared, "_MOST", 2)
    for n in (3, 4, 3, 5):
        td.gemm(np.eye(n), np.eye(n))
    kept = {key[2][0] for key in prepared._prepared}
    assert kept == {3, 5}
