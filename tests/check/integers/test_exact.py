"""Exact products of integers and of pairs, compared with Python integers."""

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import twom_dist as td
from tests.support.bits import same_bits
from tests.support.cases import cases
from tests.support.expect import raises
from tests.support.integers import as_parts, conjugate, full, multiply, random_integers
from twom_dist.errors import AccuracyError, ArgumentError, PlanError
from twom_dist.moduli import residue_system

NARROW = ("bool", "int8", "uint8", "int16", "uint16")
# (m, n, k)
SHAPES = st.tuples(*(st.integers(1, 9),) * 3)


@given(SHAPES, st.sampled_from(NARROW), st.sampled_from(NARROW), st.booleans())
def test_products_are_those_of_python_integers(shape, left, right, pairs):
    m, n, k = shape
    a = random_integers((m, k), left, pairs, 1)
    b = random_integers((k, n), right, pairs, 2)
    c = td.integers.gemm(a, b, pairs=pairs)
    assert c.dtype == ("complex128" if pairs else "float64")
    assert (as_parts(c) == multiply(a, b, pairs)).all()


@cases("dtype", NARROW)
@cases("tile", [3, 1024])
def test_updates_are_those_of_python_integers(dtype, tile):
    a, b = (random_integers((7, 5), dtype, True, seed) for seed in (1, 2))
    x, y = a[..., 0], b[..., 1]
    h, s = (multiply(a, conjugate(t), True) for t in (a, b))
    t, u = multiply(a, b.swapaxes(0, 1), True), multiply(x, y.T)
    space, options = td.integers, {"pairs": True}
    with dask.config.set({"twom-dist.largest-tile": tile}):
        for found, expected in (
            (space.herk(a, **options), h),
            (space.her2k(a, b, **options), s + conjugate(s)),
            (space.syr2k(a, b, **options), t + t.swapaxes(0, 1)),
            (
                space.syrk(a, op="T", **options),
                multiply(a.swapaxes(0, 1), a, True),
            ),
            (space.syrk(x), multiply(x, x.T)),
            (space.syr2k(x, y), u + u.T),
            (space.syrk(x, uplo="lower"), np.tril(multiply(x, x.T))),
        ):
            assert (as_parts(found) == expected).all()


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_extremes_on_both_sides_of_a_modulus(dtype, pairs):
    """The longest k of a number of moduli, and one more, with the largest entries."""
    largest = -int(np.iinfo(dtype).min)
    kind, parts = ("2m", 2) if pairs else ("real", 1)
    count = 3 if dtype == "int8" else 5 if pairs else 4
    k = residue_system(kind, count).capacity // (parts * largest**2)
    for length, moduli in ((k, count), (k + 1, count + 1)):
        last = (2,) * pairs
        shapes = (1, length, *last), (length, 1, *last)
        plan = td.plan(td.integers.gemm, *shapes, dtype=dtype, pairs=pairs)
        assert plan.num_moduli == moduli
        assert plan.error_bound == 0
        if length > 2**20:
            continue
        a = full((1, length), -largest, dtype, pairs)
        c = as_parts(td.integers.gemm(a, a.swapaxes(0, 1), pairs=pairs))
        assert c.flat[-1] == parts * largest**2 * length
        assert c.flat[0] == (0 if pairs else c.flat[-1])


def test_samples_of_8_bits_take_four_moduli():
    plan = td.plan(td.integers.herk, (1024, 4096, 2), dtype="int8", pairs=True)
    assert plan.num_moduli == 4
    assert "exactly" in str(plan)


@cases(
    "options",
    [{"method": x} for x in ("3m", "4m", "hybrid")] + [{"engine": "reference"}],
)
@cases("pairs", [False, True])
def test_other_methods_and_engines_agree(options, pairs):
    a = random_integers((6, 9), "int16", pairs, 1)
    b = random_integers((9, 5), "uint8", pairs, 2)
    c = td.integers.gemm(a, b, pairs=pairs)
    if pairs or "engine" in options:
        assert same_bits(td.integers.gemm(a, b, pairs=pairs, **options), c)


LAYOUTS = {
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1),
    "parts in front": lambda x: (
        np.moveaxis(np.ascontiguousarray(x[..., 0:2].T), 0, -1).swapaxes(0, 1).copy("K")
    ),
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "other byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "lists": lambda x: x.tolist(),
}


@cases("layout", LAYOUTS)
def test_layouts(layout):
    a = random_integers((6, 4), "int16", True, 1)
    b = random_integers((4, 3), "int16", True, 2)
    x, y = (np.asarray(LAYOUTS[layout](t)) for t in (a, b))
    if layout == "lists":
        x, y = x.astype(np.int16), y.astype(np.int16)
    c = td.integers.gemm(a, b, pairs=True)
    assert same_bits(td.integers.gemm(x, y, pairs=True), c)
    turned = (np.swapaxes(t, 0, 1) for t in (x, y))
    assert same_bits(td.integers.gemm(*turned, pairs=True, op_a="T", op_b="T"), c)


@cases("pairs", [False, True])
@cases("scheduler", ["sync", "threads"])
def test_stacks_of_arrays_of_dask(pairs, scheduler):
    a = np.array([random_integers((5, 4), "int8", pairs, i) for i in range(3)])
    b = random_integers((4, 6), "uint16", pairs, 9)
    x, y = da.from_array(a, chunks=(2, 3, 4, 1)[: a.ndim]), da.from_array(b, chunks=3)
    options = {"pairs": pairs}
    products = np.array([td.integers.gemm(t, b, **options) for t in a])
    squares = np.array([td.integers.syrk(t, **options) for t in a])
    found = [
        *(td.integers.gemm(s, t, **options) for s in (a, x) for t in (b, y)),
        *(td.integers.syrk(s, **options) for s in (a, x)),
        td.integers.gemm(x[1], y, **options),
        # The tiles of one cell have different sizes.
        td.integers.syr2k(x[0].rechunk({0: (2, 3)}), x[1], **options),
        td.integers.syr2k(x[0], x[1], uplo="lower", **options),
    ]
    wanted = [products] * 4 + [squares] * 2 + [products[1]]
    wanted += [td.integers.syr2k(*a[:2], uplo=x, **options) for x in ("full", "lower")]
    for own, expected in zip(
        dask.compute(*found, scheduler=scheduler), wanted, strict=True
    ):
        assert same_bits(own, expected)


def test_chunks_stay_integers():
    a = random_integers((8, 8), "int8", True)
    x = da.from_array(a, chunks=(4, 4, 2))
    c = td.integers.herk(x, pairs=True)
    graph = dict(c.__dask_graph__())
    stages = {str(key[0]).rpartition("-")[0] for key in graph if type(key) is tuple}
    assert not any("exponents" in stage or "largest" in stage for stage in stages)
    seen = []
    with dask.callbacks.Callback(
        posttask=lambda key, value, *_: seen.append((key, value))
    ):
        c.persist(scheduler="sync", optimize_graph=False)
    inputs = [
        value.nbytes
        for key, value in seen
        if isinstance(value, np.ndarray) and not str(key[0]).startswith("twom")
    ]
    assert max(inputs) <= 2 * 8 * 8


def test_a_block_that_was_refilled_is_encoded_again():
    buffer = random_integers((7, 3), "int8")
    load = dask.delayed(lambda: buffer, pure=False)
    x = da.from_delayed(load(), buffer.shape, "int8")
    c = td.integers.syrk(x)
    for value in (1, -2):
        buffer[2, 1] = value
        expected = multiply(buffer, buffer.T)
        assert (as_parts(c.compute(scheduler="sync")) == expected).all()


@cases("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_nothing(shape):
    m, n, k = shape
    a, b = np.zeros((m, k, 2), np.int8), np.zeros((k, n, 2), np.int8)
    assert same_bits(td.integers.gemm(a, b, pairs=True), np.zeros((m, n), complex))


def test_entries_fit_even_where_their_products_are_few():
    a, b = random_integers((2, 1), "int32"), random_integers((1, 3), "bool")
    assert (as_parts(td.integers.gemm(a, b)) == multiply(a, b)).all()
    # Single precision holds no more than 24 bits.
    for largest in (2**24, 2**24 + 1):
        a = np.array([[largest]], "int32")
        for x in (a, da.from_array(a)):
            assert (
                np.asarray(td.integers.gemm(x, np.ones((1, 2), "int8")))[0, 1]
                == largest
            )


def test_places_products_and_explanations():
    a = random_integers((5, 4), "int8", True)
    out, expected = np.empty((5, 5), complex), td.integers.herk(a, pairs=True)
    assert td.integers.herk(a, pairs=True, out=out) is out
    assert same_bits(out, expected)
    product = td.Product((5, 4), dtype="int8", routine=td.integers.syrk)
    assert same_bits(product(a[..., 0]), td.integers.syrk(a[..., 0]))
    found = td.explain(td.integers.herk, a, pairs=True)
    assert (found.asked, found.error_bound) == ("an exact product", 0)
    plan = td.plan(td.integers.herk, (1024, 4096, 2), dtype="int8", pairs=True)
    assert plan.num_moduli == 4
    assert "exactly" in str(found)
    assert "exactly" in str(plan)


a8, p8 = np.ones((3, 3), np.int8), np.ones((3, 3, 2), np.int8)
wide = np.full((3, 3), 2**26, np.int64)
just = np.full((1, 1), 2**26 + 1)


@cases(
    ("kind", "code", "call"),
    [
        (ArgumentError, "exact-dtype", lambda: td.integers.syrk(a8.astype("O"))),
        (ArgumentError, "exact-dtype", lambda: td.integers.syrk(a8.astype("g"))),
        (ArgumentError, "pairs-dtype", lambda: td.integers.herk(p8 * 1.0, pairs=True)),
        (PlanError, "pairs-shape", lambda: td.integers.herk(a8, pairs=True)),
        (PlanError, "pairs", lambda: td.integers.herk(p8, pairs="yes")),
        (PlanError, "out", lambda: td.integers.syrk(a8, out="dd")),
        (PlanError, "op", lambda: td.integers.herk(p8, op="T", pairs=True)),
        (
            *(ArgumentError, "pairs"),
            lambda: td.Product(
                (5, 4), dtype="int8", routine=td.integers.herk, pairs=True
            ),
        ),
        (AccuracyError, "exact-range", lambda: td.integers.syrk(wide)),
        (AccuracyError, "exact-range", lambda: td.integers.syr2k(just, just)),
        (AccuracyError, "accuracy", lambda: td.gemm(a8, a8, accuracy="exact")),
        *(
            (
                AccuracyError,
                "method",
                lambda m=method: td.integers.herk(p8, pairs=True, method=m),
            )
            for method in ("blas", "auto", "native", "eisenstein", "5m", None)
        ),
    ],
)
def test_refusals(kind, code, call):
    with raises(kind, code):
        call()


def test_the_largest_entries_of_wide_integers_in_memory_decide():
    a = random_integers((5, 4), "int8")
    square = td.integers.syrk(a)
    pair = td.integers.gemm(a, a.T)
    for x in (a.astype("i8"), a.tolist(), a.astype("i4")[:, ::-1], da.from_array(a)):
        assert same_bits(np.asarray(td.integers.syrk(x)), square)
    assert same_bits(
        td.integers.gemm(a.astype("i8"), da.from_array(a.T)).compute(), pair
    )
    both = random_integers((5, 4), "int8", True)
    found = td.integers.herk(both.astype("i8"), pairs=True)
    assert same_bits(found, td.integers.herk(both, pairs=True))
    # Plans and explanations look, too; shapes and blocks yet to be read have a dtype.
    ones, square = np.ones((3, 8), np.int64), td.integers.syrk
    for tell in (td.plan, td.explain):
        moduli = [tell(square, ones * x).num_moduli for x in (1, 100, -(2**20))]
        assert moduli == [1, 3, 6]
    mixed = da.from_array(np.ones((8, 4), np.int8))
    assert td.plan(td.integers.gemm, ones, mixed).num_moduli < 4
    assert not square(ones * 0).any()
    assert square(np.empty((3, 0), np.uint64)).shape == (3, 3)
    for call in (square, lambda x: td.plan(square, x)):
        with raises(AccuracyError, "exact-range"):
            call(da.from_array(ones))
    with raises(AccuracyError, "exact-range"):
        square(np.full((1, 1), -(2**63)))
    with raises(AccuracyError, "exact-range"):
        td.plan(square, (3, 8), dtype="int64")


def test_a_transposed_product_with_a_conjugate_is_the_conjugate_of_another():
    samples = random_integers((9, 4), "int8", pairs=True)
    a = samples[..., 0] + 1j * samples[..., 1]
    found = td.integers.herk(samples, op="C", pairs=True).conj()
    assert (found == a.T @ a.conj()).all()


def test_whoever_forgets_to_say_pairs_is_told():
    x = np.ones((4, 6, 2), np.int8)
    calls = [
        lambda **given: td.integers.herk(x, **given),
        lambda **given: td.integers.herk(zarr.array(x), **given),
        lambda **given: td.integers.gemm(x, x, op_b="C", **given),
        lambda **given: td.plan(td.integers.herk, da.from_array(x), **given),
        lambda **given: td.plan(td.integers.herk, x.shape, dtype="int8", **given),
    ]
    for call in calls:
        with raises(ArgumentError, "pairs"):
            call()
        call(pairs=True)
        call(pairs=False)
    with raises(ArgumentError, "pairs"):
        td.herk(x)
    assert td.herk(x.astype(float)).shape == (4, 6, 6)
    assert td.gemm(x, np.ones((2, 3))).shape == (4, 6, 3)
