"""Plans of arrays and of shapes: those of the products that are computed."""

import json
from dataclasses import replace
from functools import partial

import dask
import dask.array as da
import numpy as np
from dask.utils import format_bytes

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import first_number, raises
from tests.support.stages import count_stages
from twom_dist.errors import ArgumentError, MemoryLimitError, PlanError
from twom_dist.plan import Cluster
from twom_dist.tiles.spec import Spec

N, K = 40, 30
# How many matrices each routine takes.
ROUTINES = {"gemm": 2, "herk": 1, "syrk": 1, "her2k": 2, "syr2k": 2}


def assert_is_the_plan_of(plan, product):
    """The tasks of the product are told what the plan says, and are as many."""
    tasks = [x for x in dict(product.__dask_graph__()).values() if hasattr(x, "args")]
    specs = {x for task in tasks for x in task.args if isinstance(x, Spec)}
    assert specs == {plan.spec}
    assert plan.num_tasks == count_stages(product).total()
    assert product.chunks == (plan.grid.m, plan.grid.n)


def test_a_plan_says_what_is_expected_of_the_matrices():
    plan = td.plan(td.gemm, (N, K), (K, N))
    assert (plan.by_entries, plan.num_moduli) == (True, 16)
    assert plan.operations_per_modulus == 2 * 2 * N * N * K
    assert "16 moduli, 117.7 bits, expected: the data decide" in str(plan)
    # Bounds are rounded up: 8.30e-16 is within 8.4e-16, not 8.3e-16.
    assert "error bound       8.4e-16 (|A| |B|)_ij" in str(plan)
    given = td.plan(td.gemm, (N, K), (K, N), num_moduli=16)
    assert (given.by_entries, given.int8_operations) == (False, plan.int8_operations)
    assert given.error_bound < plan.error_bound


def lazy(shape, chunks, dtype="c16"):
    return da.zeros(shape, chunks=chunks, dtype=dtype)


UNEVEN = ((30, 3, 7), (20, 10))
CALLS = {
    "gemm": ("gemm", [lazy((N, K), 7), lazy((K, N), 7)], {}),
    "other ops": (
        *("gemm", [lazy((K, N), (7, 9)), lazy((N, K), (9, 7), "f4")]),
        {"op_a": "C", "op_b": "T", "num_moduli": 12},
    ),
    "unaligned": ("gemm", [lazy((N, K), UNEVEN), lazy((K, N), 11)], {}),
    "NumPy on the left": ("gemm", [np.ones((N, K)), lazy((K, N), 9, "f8")], {}),
    "NumPy on the right": ("gemm", [lazy((N, K), 9), np.ones((K, N), "i4")], {}),
    "native": ("gemm", [lazy((N, K), 7), lazy((K, N), 7)], {"method": "blas"}),
    "nothing": ("gemm", [lazy((N, K), 7), lazy((K, N), 7)], {"alpha": 0}),
    "no triangle": ("herk", [lazy((N, K), 7)], {"alpha": 0}),
    "herk": ("herk", [lazy((N, K), UNEVEN)], {"uplo": "lower"}),
    "syrk": ("syrk", [lazy((K, N), 13, "f4")], {"op": "T", "method": "blas"}),
    "componentwise": (
        *("gemm", [lazy((N, K), 7), lazy((K, N), 7)]),
        {"accuracy": "componentwise"},
    ),
    "componentwise updates": (
        *("syr2k", [lazy((N, K), UNEVEN), lazy((N, K), UNEVEN)]),
        {"accuracy": "componentwise", "uplo": "upper"},
    ),
    "her2k": ("her2k", [lazy((N, K), UNEVEN), lazy((N, K), 11)], {"alpha": 1j}),
    "syr2k": ("syr2k", [np.ones((N, K)), lazy((N, K), 11)], {"uplo": "upper"}),
}


@cases("panel_bytes", [1, 20_000, "1 GiB"])
@cases("call", CALLS)
def test_the_plan_of_dask_arrays_is_that_of_their_product(call, panel_bytes):
    routine, arrays, options = CALLS[call]
    with dask.config.set({"twom-dist.panel-bytes": panel_bytes}):
        plan = td.plan(getattr(td, routine), *arrays, **options)
        product = getattr(td, routine)(*arrays, **options)
    assert_is_the_plan_of(plan, product)


@cases("dtype", ["f4", "f8", "c8", "c16"])
@cases("routine", ROUTINES)
def test_arrays_and_shapes_have_one_plan(routine, dtype):
    make = partial(td.plan, getattr(td, routine))
    shapes = [(N, K), (K, N)] if routine == "gemm" else [(N, K)] * 2
    shapes = shapes[: ROUTINES[routine]]
    on = {"n_workers": 4, "threads_per_worker": 2, "memory_limit": 2**30}
    plans = [
        make(*shapes, dtype=dtype, chunks=10, **on),
        make(*(np.ones(s, dtype) for s in shapes), chunks=10, **on),
        make(*(np.ones(s, "f4") for s in shapes), dtype=dtype, chunks=10, **on),
        make(*(lazy(s, 10, dtype) for s in shapes), **on),
        make(*(lazy(s, 10, "f4") for s in shapes), dtype=dtype, **on),
        make(*(lazy(s, 9, dtype) for s in shapes), chunks=10, **on),
    ]
    numbers = {name: np.int64(x) for name, x in on.items()}
    plans.append(make(*shapes, dtype=dtype, chunks=np.int8(10), **numbers))
    if len(shapes) == 2:
        x, y = lazy(shapes[0], 10, dtype), np.ones(shapes[1], dtype)
        assert make(x, y.shape, **on).to_json() == make(x, y, **on).to_json()
    assert len({plan.to_json() for plan in plans}) == 1
    (cluster,) = {plan.cluster for plan in plans}
    assert (cluster.workers, cluster.threads, cluster.memory.limit) == (4, 2, 2**30)
    assert make(*shapes).cluster == Cluster()
    (chosen,) = {
        make(*given, dtype=dtype).to_json()
        for given in (shapes, [np.ones(s, "f4") for s in shapes])
    }
    assert chosen != plans[0].to_json()
    for wrong in ("letter", "family", "worker_memory", "tile"):
        with raises(ArgumentError, "unknown-option"):
            make(*shapes, **{wrong: None})


def test_a_plan_is_shown_in_a_line():
    plan = td.plan(td.gemm, (3000, 2000), (2000, 1000), n_workers=4, dtype="c8")
    shown = repr(plan)
    assert len(shown) < 200
    for part in ("gemm", "3000 x 2000", "complex64", "4 workers"):
        assert part in shown
    huge = td.plan(td.gemm, (10**9, 3), (3, 10**9), n_workers=4)
    assert len(repr(huge)) < 200


def test_chunks_of_c_count_as_those_of_a_and_b():
    a, b = np.ones((30, 20)), np.ones((20, 26))
    c = da.zeros((30, 26), chunks=(5, 13))
    for given in ((a, lazy((20, 26), (6, 11), "f8"), c), (a, b, c)):
        product = td.gemm(*given, beta=1)
        assert_is_the_plan_of(td.plan(td.gemm, *given, beta=1), product)
    # What is multiplied by 0 is not read, but the kind of the result does not change.
    left_out = td.gemm(a, b, c, beta=0)
    assert isinstance(left_out, da.Array)
    assert (left_out.compute() == td.gemm(a, b)).all()


@cases(
    ("routine", "given", "options", "stack"),
    [
        (td.gemm, [(1000, 64, 32), (32, 64)], {}, (1000,)),
        (td.gemm, [(5, 1, 64, 32), (7, 32, 64)], {"beta": 2}, (5, 7)),
        (td.herk, [da.ones((3, 64, 32), chunks=10, dtype=complex)], {}, (3,)),
        (td.integers.herk, [np.ones((4, 9, 8, 2), np.int8)], {"pairs": True}, (4,)),
    ],
)
def test_plans_of_stacks_are_those_of_one_product(routine, given, options, stack):
    found = td.plan(routine, *given, **options)
    assert found.stack == stack
    assert found.tiles == (1, 1, 1)
    count = int(np.prod(stack))
    assert f"of {count} products, {count * found.int8_operations:.3g} ops" in str(found)
    assert json.loads(found.to_json())["stack"] == list(stack)
    assert f"1 to {count}, each of one product or several" in str(found)
    m, n, _ = found.shape
    results = format_bytes(count * m * n * np.dtype(found.dtype).itemsize)
    assert f"ops and {results} of results together" in str(found)
    several = td.plan(routine, *given, n_workers=2, threads_per_worker=2, **options)
    assert several.n_workers == 2
    assert "2 with 2 threads, which share the products" in str(several)
    peak = format_bytes(2 * found.memory.total)
    assert f"{peak} with 2 products at once" in str(several)


def test_memory_that_a_stack_lacks_is_advised():
    make = partial(td.plan, td.gemm, (5, 400, 200), (200, 300))
    with raises(MemoryLimitError, "memory") as caught:
        make(memory_limit="1 MiB", n_workers=3)
    remedy = caught.value.remedy
    assert "more workers" not in remedy
    assert "chunks" not in remedy
    enough = first_number(remedy) * 2**20
    assert make(memory_limit=enough).memory.total == caught.value.needed
    with raises(MemoryLimitError, "memory"):
        make(memory_limit=enough - 2**20)
    large = partial(td.plan, td.gemm, (5, 4000, 200), (200, 300))
    for chunks in ((1, 2, 3, 4), 0, "large", ((64, 64), 300, 200)):
        for call in (make, large):
            with raises(PlanError, "chunks"):
                call(chunks=chunks)


def test_large_matrices_of_a_stack_are_planned_one_by_one():
    large = {"chunks": 3000, "n_workers": 4}
    found = td.plan(td.herk, (3, 9000, 6000), **large)
    assert replace(found, stack=()) == td.plan(td.herk, (9000, 6000), **large)
    assert f", {3 * found.num_tasks} tasks and" in str(found)
    # Of dask arrays the chunks are the tiles.
    x = da.zeros((3, 2, 40, 9000, 2), dtype="i1", chunks=(1, 1, 40, 5000, 2))
    found = td.plan(td.integers.herk, x, pairs=True)
    assert (found.stack, found.grid.k) == ((3, 2), (5000, 4000))
