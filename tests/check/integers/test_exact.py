"""Exact products of integers and of pairs, compared with Python integers."""

from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises, same_bits
from tests.support.integers import as_parts, conjugate, full, multiply, random_integers
from tests.support.lies import lying
from twom_dist.errors import AccuracyError, ArgumentError, KernelError, PlanError
from twom_dist.moduli import residue_system, samples_system

NARROW = ("bool", "int8", "uint8", "int16", "uint16")
METHODS = ("2m", "3m", "4m", "hybrid")
LAYOUTS = (
    lambda x: x,
    lambda x: np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1),
    lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),  # read-only
    lambda x: x.astype(x.dtype.newbyteorder()),
)


def turn(x, op, pairs):
    if op == "N":
        return x
    return conjugate(x) if op == "C" and pairs else x.swapaxes(-1 - pairs, -2 - pairs)


@settings(max_examples=60)
@given(st.data(), *(st.integers(0, 7),) * 3, st.booleans(), st.booleans())
def test_products_are_those_of_python_integers(data, m, n, k, pairs, lazily):
    def pick(*values):
        return data.draw(st.sampled_from(values))

    name, stack = pick("gemm", "herk", "syrk", "her2k", "syr2k"), pick((), (), (2,))
    pairs = pairs or name.startswith("her")
    options = {"pairs": pairs, "engine": pick("cpu", "reference")}
    if pairs:
        options["method"] = pick(*METHODS)
    if name == "gemm":
        op, other = options["op_a"], options["op_b"] = pick(*"NTC"), pick(*"NTC")
        shapes = [(m, k) if op == "N" else (k, m), (k, n) if other == "N" else (n, k)]
    else:
        letter = "T" if name[0] == "s" else "C"
        op = options["op"] = pick("N", letter)
        options["uplo"] = pick("full", "lower", "upper")
        shapes = [(m, k) if op == "N" else (k, m)] * (1 + name.endswith("2k"))
    matrices = [
        random_integers((*stack, *x), pick(*NARROW), pairs, i)
        for i, x in enumerate(shapes)
    ]
    # Whole integers, whose opposites exist.
    x, *y = (np.asarray(z).astype(object) for z in matrices)
    if name == "gemm":
        expected = multiply(turn(x, op, pairs), turn(y[0], other, pairs), pairs)
    else:
        y = y[0] if y else x
        ops = (op, letter) if op == "N" else (op, "N")
        expected = multiply(turn(x, ops[0], pairs), turn(y, ops[1], pairs), pairs)
        if len(matrices) > 1:
            expected += multiply(turn(y, ops[0], pairs), turn(x, ops[1], pairs), pairs)
        cut = {"full": np.ones_like, "lower": np.tril, "upper": np.triu}
        mask = cut[options["uplo"]](np.ones((expected.shape[-1 - pairs],) * 2, int))
        expected *= mask[..., None] if pairs else mask
    if data.draw(st.booleans()):
        # Integers in floating-point arrays, complex ones as pairs.
        kinds = ("complex64", "complex128") if pairs else ("float32", "float64")
        matrices = [
            (x @ (1, 1j) if pairs else x).astype(pick(*kinds)) for x in matrices
        ]
        del options["pairs"]
    if lazily:
        # Each matrix is cut in its own way.
        for x, made in enumerate(matrices):
            ends = [data.draw(st.integers(0, size)) for size in made.shape]
            cuts = [(y, size - y) for y, size in zip(ends, made.shape, strict=True)]
            matrices[x] = da.from_array(made, tuple(cuts))
    elif not stack:
        matrices = [pick(*LAYOUTS)(x) for x in matrices]
    with dask.config.set({"twom-dist.largest-tile": pick(3, 1024)}):
        found = getattr(td.integers, name)(*matrices, **options)
        assert isinstance(found, da.Array) == lazily
        found = np.asarray(found)
    assert found.dtype == ("complex128" if pairs else "float64")
    assert (as_parts(found) == expected).all()


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_extremes_on_both_sides_of_a_modulus(dtype, pairs):
    """The longest k of a number of moduli, and one more, with the largest entries.

    Of int8 the longest whose sums int32 holds, and then int64.
    """
    largest = -int(np.iinfo(dtype).min)
    kind, parts = ("2m", 2) if pairs else ("real", 1)
    count = 5 if pairs else 4
    system, names = residue_system(kind, count), (kind, kind)
    moduli = count, count + 1
    if dtype == "int8":
        system, names, moduli = samples_system(pairs, 1), ("int32", "int64"), (1, 1)
    k = system.capacity // (parts * largest**2)
    for length, number, name in zip((k, k + 1), moduli, names, strict=True):
        last = (2,) * pairs
        shapes = (1, length, *last), (length, 1, *last)
        plan = td.plan(td.integers.gemm, *shapes, dtype=dtype, pairs=pairs)
        found = plan.num_moduli, plan.method, plan.error_bound
        assert found == (number, name, 0)
        if length > 2**20:
            continue
        a = full((1, length), -largest, dtype, pairs)
        c = as_parts(td.integers.gemm(a, a.swapaxes(0, 1), pairs=pairs))
        assert c.flat[-1] == parts * largest**2 * length
        assert c.flat[0] == (0 if pairs else c.flat[-1])


def test_chunks_stay_integers():
    a = random_integers((8, 8), "int8", True)
    c = td.integers.herk(da.from_array(a, chunks=(4, 4, 2)), pairs=True)
    graph = dict(c.__dask_graph__())
    stages = {str(key[0]).rpartition("-")[0] for key in graph if type(key) is tuple}
    assert not any("exponents" in stage or "largest" in stage for stage in stages)
    seen = []
    with dask.callbacks.Callback(posttask=lambda key, x, *_: seen.append((key, x))):
        c.persist(scheduler="sync", optimize_graph=False)
    arrays = ((key, x) for key, x in seen if isinstance(x, np.ndarray))
    inputs = [x.nbytes for key, x in arrays if not str(key[0]).startswith("twom")]
    assert max(inputs) <= 2 * 8 * 8


@cases("pairs", [True, False])
@cases("inputs", ["hold", "stream"])
def test_chunks_without_rows_or_columns(inputs, pairs):
    a = random_integers((5, 9), "int8", pairs)
    b = random_integers((9, 7), "uint8", pairs)
    cuts, last = ((2, 0, 3), (4, 5, 0), (0, 7)), a.shape[2:]
    left, right = (
        da.from_array(x, chunks=(*own, *last)).map_blocks(np.positive)
        for x, own in ((a, cuts[:2]), (b, cuts[1:]))
    )
    with dask.config.set({"twom-dist.inputs": inputs}):
        c = td.integers.gemm(left, right, pairs=pairs).compute()
        h = td.integers.herk(left, pairs=pairs).compute()
    assert same_bits(c, td.integers.gemm(a, b, pairs=pairs))
    assert same_bits(h, td.integers.herk(a, pairs=pairs))


def test_entries_fit_even_where_their_products_are_few():
    a, b = random_integers((2, 1), "int32"), random_integers((1, 3), "bool")
    assert (as_parts(td.integers.gemm(a, b)) == multiply(a, b)).all()
    # Single precision holds no more than 24 bits.
    for largest in (2**24, 2**24 + 1):
        a, ones = np.array([[largest]], "int32"), np.ones((1, 2), "int8")
        for x in (a, da.from_array(a)):
            assert np.asarray(td.integers.gemm(x, ones))[0, 1] == largest


def test_a_result_is_written_where_it_is_wanted():
    a = random_integers((5, 4), "int8", True)
    out, expected = np.empty((5, 5), complex), td.integers.herk(a, pairs=True)
    assert td.integers.herk(a, pairs=True, out=out) is out
    assert same_bits(out, expected)
    assert td.explain(td.integers.herk, a, pairs=True).error_bound == 0


def test_alpha_and_dtype_round_the_exact_product():
    a = random_integers((5, 300), "int8", True)
    exact, mean = td.integers.herk(a, pairs=True), {"alpha": 1 / 300, "pairs": True}
    assert same_bits(td.integers.herk(a, **mean), exact * (1 / 300))
    wide = td.integers.gemm(a, a.astype("int32"), op_b="C", dtype="complex64", **mean)
    single = td.integers.gemm(a, a, op_b="C", dtype="complex64", **mean)
    assert same_bits(wide, single)
    assert same_bits(single, (exact * (1 / 300)).astype("complex64"))


@cases("dtype", ["int8", "int16"])
def test_a_sum_of_two_products_is_rounded_once(dtype):
    a = random_integers((5, 40000), "int8", True).astype(dtype)
    b = a[::-1].copy()
    b[2:] //= 3
    exact = td.integers.her2k(a, b, pairs=True)
    single = td.integers.her2k(a, b, pairs=True, dtype="complex64")
    assert same_bits(single, exact.astype("complex64"))
    tiny = td.integers.syr2k(a[..., 0], b[..., 0], alpha=-1e-60, dtype="float32")
    assert same_bits(tiny, np.zeros((5, 5), np.float32))


@cases("pairs", [False, True])
def test_any_byte_but_zero_is_true(pairs):
    x = random_integers((5, 40), "uint8", pairs)
    for own in (x, np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1)):
        found = td.integers.syrk(own.view(bool), pairs=pairs)
        assert same_bits(found, td.integers.syrk(x != 0, pairs=pairs))


def test_a_block_of_pairs_of_another_dtype_is_refused():
    x = da.ones((4, 5, 2), chunks=(2, 3, 2), dtype="int8")
    liar = lying(x, lambda block: block * np.int16(300), dtype="int8")
    with raises(KernelError, "block-kind"):
        td.integers.herk(liar, pairs=True).compute()


def test_the_largest_entries_of_wide_integers_in_memory_decide():
    a = random_integers((5, 4), "int8")
    square, pair = td.integers.syrk(a), td.integers.gemm(a, a.T)
    for x in (a.astype("i8"), a.tolist(), a.astype("i4")[:, ::-1], da.from_array(a)):
        assert same_bits(np.asarray(td.integers.syrk(x)), square)
    mixed = td.integers.gemm(a.astype("i8"), da.from_array(a.T))
    assert same_bits(mixed.compute(), pair)
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


def refuse(kind, code, function, *given, **options):
    return kind, code, lambda: function(*given, **options)


exact = td.integers
a8, p8 = np.ones((3, 3), np.int8), np.ones((3, 3, 2), np.int8)
WIDE = [np.full((3, 3), 2**26), da.ones((3, 8), dtype="i8"), np.full((1, 1), -(2**63))]
JUST, OTHERS = np.full((1, 1), 2**26 + 1), ("blas", "auto", "5m", None)
REFUSALS = [
    refuse(ArgumentError, "exact-dtype", exact.syrk, a8.astype("O")),
    refuse(ArgumentError, "exact-dtype", exact.syrk, a8.astype("g")),
    refuse(ArgumentError, "exact-dtype", exact.syrk, a8, dtype="complex64"),
    refuse(ArgumentError, "exact-dtype", exact.herk, p8, pairs=True, dtype="float32"),
    refuse(ArgumentError, "pairs-dtype", exact.herk, p8 * 1.0, pairs=True),
    refuse(PlanError, "pairs-shape", exact.herk, a8, pairs=True),
    refuse(PlanError, "pairs", exact.herk, p8, pairs="yes"),
    refuse(PlanError, "out", exact.syrk, a8, out="dd"),
    refuse(PlanError, "op", exact.herk, p8, op="T", pairs=True),
    *(refuse(AccuracyError, "exact-range", exact.syrk, x) for x in WIDE),
    refuse(AccuracyError, "exact-range", exact.syr2k, JUST, JUST),
    refuse(AccuracyError, "exact-range", td.plan, exact.syrk, WIDE[1]),
    refuse(AccuracyError, "exact-range", td.plan, exact.syrk, (3, 8), dtype="int64"),
    refuse(AccuracyError, "accuracy", td.gemm, a8, a8, accuracy="exact"),
    *(
        refuse(AccuracyError, "method", exact.herk, p8, pairs=True, method=x)
        for x in OTHERS
    ),
]


@cases(("kind", "code", "call"), REFUSALS)
def test_refusals(kind, code, call):
    with raises(kind, code):
        call()


def test_whoever_forgets_to_say_pairs_is_told():
    x = np.ones((4, 6, 2), np.int8)
    for function, *operands in (
        (exact.herk, x),
        (exact.herk, zarr.array(x)),
        (partial(exact.gemm, op_b="C"), x, x),
        (partial(td.plan, exact.herk), da.from_array(x)),
        (partial(td.plan, exact.herk, dtype="int8"), x.shape),
    ):
        with raises(ArgumentError, "pairs"):
            function(*operands)
        function(*operands, pairs=True)
    with raises(ArgumentError, "pairs"):
        td.herk(x)
