"""Stacks of matrices: each becomes what it becomes alone, bit for bit."""

import dask
import numpy as np
import pytest

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.pipeline import add_both_ways, dtype_for, run_stages
from tests.support.stacks import assert_each_is_as_alone, compute, random_stack, spec_of
from tests.support.strategies import DTYPES
from twom_dist.errors import PlanError
from twom_dist.kernels.cpu import engine as engine_module
from twom_dist.kernels.cpu.encode import encode
from twom_dist.kernels.cpu.products import multiply
from twom_dist.moduli import residue_system
from twom_dist.run.stacks import compute_stack

# The stages whose first axis is that of planes, products or words.
BY_PLANE = ("left planes", "right planes", "residues", "pair")
LAYOUTS = {
    "C": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "every second": lambda x: np.repeat(x, 2, axis=0)[::2],
}


@cases("layout", LAYOUTS)
@cases("choice", [("2m", 3), ("3m", 4), ("hybrid", 21), ("real", 5), ("eisenstein", 3)])
def test_every_stage_of_a_stack(engine, choice, layout):
    (kind, count), lay = choice, LAYOUTS[layout]
    system, dtype = residue_system(kind, count), dtype_for(kind)
    for stack, m, n, k in (((1,), 1, 1, 1), ((2,), 5, 3, 7), ((2, 1), 17, 18, 5)):
        x, y = random_stack(stack, m, k, dtype, 1), random_stack(stack, n, k, dtype, 2)
        y[-1, ..., 0, 0] = np.inf
        found = run_stages(engine, lay(x), lay(y), system, conjugate=True)
        for place in np.ndindex(stack):
            alone = run_stages(engine, x[place], y[place], system, conjugate=True)
            for name, value in alone.items():
                where = (slice(None), *place) if name in BY_PLANE else place
                assert same_bits(found[name][where], value), name


@cases("hermitian", [False, True])
@cases("triangle", ["full", "lower", "upper"])
def test_residues_of_a_stack_are_added(engine, triangle, hermitian):
    system, n = residue_system("2m", 3), 18
    x, e = random_stack((2, 1), n, 5, "complex128", 1), np.full((2, 1, n), 9, np.int32)
    left, options = engine.encode(x, e, system), {"hermitian": hermitian}
    right = engine.encode(x, e, system, conjugate=True)
    whole = engine.multiply(left, right, system)
    before = engine.multiply(left, right, system, triangle=triangle, **options)
    expected = engine.add_residues(whole, whole, system)[..., :n]
    wanted = {"full": 1, "lower": np.tri(n), "upper": np.tri(n).T}[triangle] == 1
    options["triangle"] = triangle
    for found in add_both_ways(engine, left, right, system, before, **options):
        assert ((found[..., :n] == expected) | ~wanted).all()


@cases("ops", ["NN", "NC", "TN"])
@cases("dtype", DTYPES)
def test_products_are_those_of_gemm(engine_name, dtype, ops):
    options = {"op_a": ops[0], "op_b": ops[1], "num_moduli": 4, "engine": engine_name}
    for count, m, n, k in ((1, 5, 3, 7), (5, 2, 17, 3)):
        a, b = (
            random_stack((count,), m, k, dtype, 1),
            random_stack((count,), k, n, dtype, 2),
        )
        c = random_stack((count,), m, n, dtype, 3)
        a[0, 1, 2], b[-1, 0, 1] = np.nan, -np.inf
        a = a if ops[0] == "N" else np.ascontiguousarray(a.swapaxes(1, 2))
        b = b if ops[1] == "N" else np.ascontiguousarray(b.swapaxes(1, 2))
        for scalars in ({}, {"alpha": -1.5, "beta": 0.5}):
            given = (a, b, c) if scalars else (a, b)
            found = compute("gemm", *given, **options, **scalars)
            assert_each_is_as_alone(found, "gemm", *given, **options, **scalars)


@cases("method", ["2m", "3m", "hybrid", "eisenstein"])
@cases("uplo", ["full", "lower", "upper"])
@cases("name", ["herk", "syrk"])
def test_updates_are_those_of_one_matrix(engine_name, name, uplo, method):
    options = {"method": method, "num_moduli": 3, "uplo": uplo, "engine": engine_name}
    for count, n, k in ((1, 1, 1), (2, 19, 5), (5, 7, 3)):
        a = random_stack((count,), n, k, "complex64", 1)
        a[-1, 0, 0] = np.inf
        found = compute(name, a, **options)
        assert_each_is_as_alone(found, name, a, **options)
        c = random_stack((count,), n, n, "complex64", 2)
        found = compute(name, a, None, c, beta=2.0, **options)
        assert_each_is_as_alone(found, name, a, None, c, beta=2.0, **options)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("name", ["her2k", "syr2k"])
def test_sums_of_two_products(engine_name, name, dtype):
    a, b = (random_stack((3,), 5, 7, dtype, seed) for seed in (1, 2))
    c = random_stack((3,), 5, 5, dtype, 3)
    a[1, 0, 0] = np.inf
    for uplo in ("full", "lower"):
        options = {"num_moduli": 3, "uplo": uplo, "beta": 2.0, "engine": engine_name}
        found = compute(name, a, b, c, **options)
        assert_each_is_as_alone(found, name, a, b, c, **options)


@pytest.mark.parametrize("sizes", [(1, 1), (3 << 20, 3 << 20)])
@pytest.mark.parametrize("way", ["microkernel", "gemm"])
@pytest.mark.parametrize("uplo", ["full", "upper"])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_groups_of_rows_and_pieces_of_a_stack(monkeypatch, dtype, uplo, way, sizes):
    """Pieces of one matrix side by side, and of several that share the threads."""
    for module in (encode, multiply):
        monkeypatch.setattr(module, "has_vnni", lambda: way == "microkernel")
    monkeypatch.setattr(engine_module, "STACK_BYTES", sizes)
    a = random_stack((5,), 96, 512, dtype, 1)
    a[3, 50, 100] = np.nan
    options = {"num_moduli": 5, "uplo": uplo}
    out = np.full((5, 96, 96), 77, dtype)
    with dask.config.set({"twom-dist.threads": 2}):
        assert compute("herk", a, out=out, **options) is out
    assert_each_is_as_alone(out, "herk", a, **options)


def test_a_result_is_written_where_it_is_wanted(engine_name):
    a = random_stack((3,), 5, 4, "complex128", 1)
    options = {"num_moduli": 3, "engine": engine_name}
    whole = np.full((5, 5, 3), 77 + 1j)
    out = whole.transpose(2, 0, 1)
    assert compute("herk", a, out=out, **options) is out
    assert_each_is_as_alone(np.ascontiguousarray(out), "herk", a, **options)


def test_a_stack_without_matrices_or_entries(engine):
    system = residue_system("2m", 3)
    for stack, m, n, k in (((0,), 3, 2, 4), ((2,), 3, 2, 0), ((2,), 0, 3, 4)):
        x, y = np.ones((*stack, m, k), complex), np.ones((*stack, n, k), complex)
        found = run_stages(engine, x, y, system)["C"]
        assert found.shape == (*stack, m, n)
        assert not found.any()


@pytest.mark.parametrize("shape", [(2, 3, 4, 0), (2, 0, 4, 3), (2, 3, 0, 5)])
def test_empty_products_are_beta_times_c(shape):
    count, m, n, k = shape
    a, b, c = (np.ones((count, *own)) for own in ((m, k), (k, n), (m, n)))
    found = compute("gemm", a, b, c, beta=2.0, num_moduli=3)
    expected = [
        td.gemm(*each, beta=2.0, num_moduli=3) for each in zip(a, b, c, strict=True)
    ]
    assert found.tobytes() == np.reshape(expected, (count, m, n)).tobytes()


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3, 4), (5, 4, 3), None),
        ((2, 3, 4), (2, 3, 4), None),
        ((2, 3, 4), (4, 3), None),
        ((2, 3, 4), (2, 4, 3), (2, 3, 4)),
        ((2, 3, 4), (2, 4, 3), (3, 3)),
    ],
)
def test_stacks_that_do_not_fit_are_refused(shapes):
    a, b, c = (None if shape is None else np.ones(shape) for shape in shapes)
    spec = spec_of("gemm", np.ones((3, 4)), np.ones((4, 3)), num_moduli=3)
    with raises(PlanError, "stack-shapes"):
        compute_stack(a, b, spec, c)
