"""Plans of arrays, of shapes and of files: those of the products that are computed."""

from functools import partial

import dask
import dask.array as da
import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.splits import in_sweeps
from tests.support.stages import count_stages
from tests.support.strategies import random_matrix
from twom_dist.errors import PlanError
from twom_dist.plan import Cluster
from twom_dist.tiles.spec import Spec

N, K = 40, 30
# How many matrices each routine takes.
ROUTINES = {"gemm": 2, "herk": 1, "syrk": 1, "her2k": 2, "syr2k": 2}


@cases(
    ("options", "data_driven", "asked"),
    [
        ({}, True, "accuracy componentwise"),
        ({"accuracy": "normwise"}, False, "accuracy normwise"),
        ({"accuracy": np.float32(0.25)}, False, "accuracy 0.25"),
        ({"num_moduli": np.int64(9)}, False, "9 moduli"),
        ({"method": "blas"}, False, "the native product"),
    ],
)
def test_a_plan_says_what_is_asked_for_and_expected(options, data_driven, asked):
    shapes = (N, K), (K, N)
    plan = td.plan(td.gemm, *shapes, **options)
    assert plan.data_driven == data_driven
    assert td.explain(td.gemm, *shapes, **options).asked == asked
    assert ("expected: the data decide" in str(plan)) == data_driven
    assert repr(plan) == str(plan)
    if not options:  # bounds are rounded up: 8.30e-16 is within 8.4e-16, not 8.3e-16
        assert "error bound      8.4e-16 (|A| |B|)_ij" in str(plan)


def lazy(shape, chunks, dtype="c16"):
    return da.zeros(shape, chunks=chunks, dtype=dtype)


UNEVEN = ((30, 3, 7), (20, 10))
TURNED = {"op_a": "C", "op_b": "T", "num_moduli": 12}
BOTH, SAME = [lazy((N, K), 7), lazy((K, N), 7)], [lazy((N, K), UNEVEN)]
CALLS = {
    "gemm": ("gemm", BOTH, {}),
    "other ops": ("gemm", [lazy((K, N), (7, 9)), lazy((N, K), (9, 7), "f4")], TURNED),
    "unaligned": ("gemm", [*SAME, lazy((K, N), 11)], {}),
    "NumPy on the left": ("gemm", [np.ones((N, K)), lazy((K, N), 9, "f8")], {}),
    "NumPy on the right": ("gemm", [lazy((N, K), 9), np.ones((K, N), "i4")], {}),
    "C": ("gemm", [np.ones((N, K)), np.ones((K, N)), lazy((N, N), (5, 13))], {}),
    "native": ("gemm", BOTH, {"method": "blas"}),
    "nothing": ("gemm", BOTH, {"alpha": 0}),
    "no triangle": ("herk", BOTH[:1], {"alpha": 0}),
    "herk": ("herk", SAME, {"uplo": "lower"}),
    "syrk": ("syrk", [lazy((K, N), 13, "f4")], {"op": "T", "method": "blas"}),
    "equilibrated": ("gemm", BOTH, {"equilibrate": True}),
    "her2k": ("her2k", [*SAME, lazy((N, K), 11)], {"alpha": 1j}),
    "syr2k": ("syr2k", [np.ones((N, K)), lazy((N, K), 11)], {"uplo": "upper"}),
}


@cases("panel_bytes", [0, 1, 20_000, "1 GiB"])
@cases("call", CALLS)
def test_the_plan_of_dask_arrays_is_that_of_their_product(call, panel_bytes):
    """Its tasks are told what the plan says, and are as many."""
    routine, arrays, options = CALLS[call]
    if len(arrays) > 2:
        options = {"beta": 1}
    with (
        dask.config.set({"twom-dist.panel-bytes": panel_bytes})
        if panel_bytes
        else in_sweeps((1, 2), (2, 3))
    ):
        plan = td.plan(getattr(td, routine), *arrays, **options)
        product = getattr(td, routine)(*arrays, **options)
    tasks = [x for x in dict(product.__dask_graph__()).values() if hasattr(x, "args")]
    specs = {x for task in tasks for x in task.args if isinstance(x, Spec)}
    assert specs == {plan.spec}
    assert plan.num_tasks == count_stages(product).total()
    assert product.chunks == (plan.grid.m, plan.grid.n)


@cases("dtype", ["f4", "f8", "c8", "c16"])
@cases("routine", ROUTINES)
def test_arrays_and_shapes_have_one_plan(routine, dtype):
    make = partial(td.plan, getattr(td, routine))
    shapes = [(N, K), (K, N)] if routine == "gemm" else [(N, K)] * 2
    shapes = shapes[: ROUTINES[routine]]
    on = {"n_workers": 4, "threads_per_worker": 2, "memory_limit": 2**30}
    plans = [
        make(*shapes, dtype=dtype, chunks=10, **on),
        make(*map(list, shapes), dtype=dtype, chunks=np.int8(10), **on),
        make(*(np.ones(s, dtype) for s in shapes), chunks=10, **on),
        make(*(np.ones(s, "f4") for s in shapes), dtype=dtype, chunks=10, **on),
        make(*(lazy(s, 10, dtype) for s in shapes), **on | {"memory_limit": "1 GiB"}),
        make(*(lazy(s, 10, "f4") for s in shapes), dtype=dtype, **on),
        make(*(lazy(s, 9, dtype) for s in shapes), chunks=10, **on),
    ]
    if len(shapes) == 2:
        x, y = lazy(shapes[0], 10, dtype), np.ones(shapes[1], dtype)
        assert make(x, y.shape, **on).to_json() == make(x, y, **on).to_json()
    assert len({plan.to_json() for plan in plans}) == 1
    (cluster,) = {plan.cluster for plan in plans}
    assert (cluster.workers, cluster.threads, cluster.memory.limit) == (4, 2, 2**30)
    assert make(*shapes).cluster == Cluster()


def test_workers_are_on_one_host_unless_told():
    for hosts in (None, 1, 2, 4):
        found = td.plan(td.gemm, (N, K), (K, N), chunks=10, n_workers=4, n_hosts=hosts)
        several = hosts in (2, 4)
        assert (found.bytes_between_hosts > 0) == several
        assert ("between machines" in str(found)) == several
    assert td.plan(td.gemm, (N, K), (K, N), n_hosts=3).n_workers == 3
    for hosts in (3, 0, -2, 1.5, True, 1.0, "2"):
        with raises(PlanError, "cluster") as caught:
            td.plan(td.gemm, (N, K), (K, N), n_workers=4, n_hosts=hosts)
        assert ("is not an integer" in str(caught.value)) == (hosts != 3)


def test_plans_of_integers_name_the_dtypes_of_sums_and_results():
    samples = np.ones((N, K, 2), "int8")
    found = td.plan(td.integers.herk, samples, pairs=True, dtype="int32")
    assert "integers in complex128" in str(found)
    assert found.notes == ("the result is converted to int32",)
    for tell in (td.plan, td.explain):  # jobs write none
        with raises(PlanError, "routine"):
            tell(td.rank_k_files, td.integers.herk, samples, pairs=True, dtype="int32")


def test_a_dtype_of_exact_products_is_that_of_the_result_unless_of_integers():
    plan = partial(td.plan, td.integers.gemm, (N, K), (K, N))
    assert plan().to_json() == plan(dtype="int8").to_json()
    assert plan().dtype == plan(dtype="int16").dtype == "float64"
    assert plan(dtype="int16").num_moduli > plan().num_moduli
    single = plan(dtype="float32")
    assert (single.dtype, single.method) == ("float32", plan().method)
    assert plan(dtype="complex64").dtype == "complex64"  # of complex integers


def test_plans_and_explanations_take_arrays_shapes_and_paths(tmp_path):
    path, a = tmp_path / "A.npy", random_matrix(30, 20, "complex64")
    np.save(path, a)
    whole = td.plan(td.gemm, a, a, op_b="C")
    for given in ((path, path), (a, a.shape), (str(path), a)):
        assert td.plan(td.gemm, *given, op_b="C").to_json() == whole.to_json()
    explained = td.explain(td.gemm, a, a, op_b="C")
    assert str(td.explain(td.gemm, path, a, op_b="C")) == str(explained)
    unseen = td.explain(td.gemm, path, a.shape, op_b="C")
    assert (unseen.num_moduli, unseen.rho) == (8, 0)
    # C is a matrix like others.
    c = np.eye(30)
    with_c = td.plan(td.herk, a, c, beta=2, alpha=0.5)
    assert with_c.dtype == "complex128"
    shaped = td.plan(td.herk, a.shape, c.shape, beta=2, dtype="complex128")
    assert shaped.to_json() == with_c.to_json()
    assert td.explain(td.herk, a, c, beta=2).num_moduli > 9
    assert td.explain(td.herk, a, beta=2).num_moduli <= 9


def test_pairs_are_planned_and_explained_as_arrays_shapes_and_paths(here):
    v = np.ones((30, 20, 2), np.int8)
    np.save("V.npy", v)
    herk, pairs = td.integers.herk, {"pairs": True}
    whole, about = td.plan(herk, v, **pairs), td.explain(herk, v, **pairs)
    assert td.plan(herk, "V.npy", **pairs).to_json() == whole.to_json()
    job = td.rank_k_files, herk, "V.npy"
    assert td.plan(*job, chunks=10, **pairs).tile_shape == (10, 10, 10)
    assert td.explain(*job, **pairs) == td.explain(herk, "V.npy", **pairs) == about
    given = ("V.npy", "V.npy"), ("V.npy", v), (v, "V.npy"), (v.shape, v)
    both = {"op_b": "C", **pairs}
    explained = td.explain(td.integers.gemm, v, v, **both)
    # Without a dtype a shape has that of the other matrix.
    given += (v, v.shape), ("V.npy", v.shape)
    assert {td.explain(td.integers.gemm, *x, **both) for x in given} == {explained}
    shaped = td.explain(td.integers.gemm, v.shape, v.shape, dtype="i1", **both)
    assert shaped == explained
    # Beside arrays and files it is that of the result, which takes half the memory.
    for found in (v, "V.npy"):
        single = td.plan(herk, found, dtype="complex64", **pairs)
        assert single.dtype == herk(v, dtype="complex64", **pairs).dtype
        assert 2 * single.memory.outputs == whole.memory.outputs
        shaped = td.plan(herk, v.shape, dtype="complex64", **pairs)
        assert shaped.to_json() == single.to_json()
    assert td.plan(herk, v.shape, **pairs).to_json() == whole.to_json()


def test_files_are_multiplied_by_the_routine_that_is_given(here):
    a = np.random.default_rng(0).integers(-99, 99, (12, 12)).astype(np.int16)
    np.save("A.npy", a)
    exactly = td.multiply_files("A.npy", "A.npy", "C.npy", routine=td.integers.gemm)
    assert (np.load("C.npy") == a.astype(int) @ a).all()
    assert "exact" in exactly.explanation.asked
    given = td.rank_k_files, td.zherk, "A.npy", "H.npy"
    own = {"uplo": "lower", "chunks": 4}
    assert td.plan(*given, **own).tile_shape == (4, 4, 4)
    explained = td.explain(*given, **own)
    assert explained == td.explain(td.zherk, "A.npy", uplo="lower")


def test_batches_and_odd_chunks_are_refused():
    lazy = da.ones((3, 64, 32), chunks=10, dtype=complex)
    for routine, *given in ((td.gemm, (5, 1, 64, 32), (7, 32, 64)), (td.herk, lazy)):
        with raises(PlanError, "stack"):
            td.plan(routine, *given)
    for chunks in ((1, 2, 3, 4), 0, "large", ((64, 64), 300, 200)):
        with raises(PlanError, "chunks"):
            td.plan(td.gemm, (400, 200), (200, 300), chunks=chunks)
