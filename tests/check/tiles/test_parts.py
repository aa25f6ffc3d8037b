"""Parts of k: whoever multiplies them, and in whatever order they are added."""

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import same_bits
from tests.support.splits import in_sweeps, split_along_k, steps_run_again
from tests.support.stages import count_stages
from tests.support.strategies import ENGINE_NAMES, random_matrix
from twom_dist.tiles.grid import cut_inner

N, K = 30, 70


def computed(lazy):
    return dask.compute(lazy, scheduler="sync")[0]


@cases("split", [(2, 1), (3, 3)])
def test_sums_of_integers(split):
    rng = np.random.default_rng(1)
    a = rng.integers(-100, 100, (N, K)).astype(np.int8)
    pairs = rng.integers(-100, 100, (N, K, 2)).astype(np.int16)

    def products(a, pairs):
        yield td.integers.gemm(a, a, op_b="T")
        yield td.integers.syr2k(a, a[::-1])
        yield td.integers.herk(pairs, pairs=True)
        yield td.integers.matmul(a.astype(int) << 40, a.T, dtype=object)

    lazily = (da.from_array(t, chunks=(17, 11, 2)[: t.ndim]) for t in (a, pairs))
    with split_along_k(*split, seed=sum(split)):
        found = [*products(*lazily)]
    stages = {"twom-panel", "twom-sweep"}
    assert all(stages & count_stages(x).keys() for x in found)
    for lazy, eager in zip(found, products(a, pairs), strict=True):
        assert (computed(lazy) == eager).all()


@cases("engine", ENGINE_NAMES)
@cases("k", [0, 11])
def test_no_task_writes_to_what_it_is_given(k, engine):
    """Another worker receives it read-only; and a task may run again."""
    a, given = random_matrix(N, N + k, "complex128", 1.0, 1), []

    def keep(_, value, *__):
        own = value[0][0] if isinstance(value, list) else ()
        sums = [x.values for x in own]
        given.extend((x, x.copy()) for x in sums)
        for x in sums:
            x.flags.writeable = False

    x = da.from_array(a, chunks=((N,), (13, 0, 17, k)))
    options = {"op_b": "C", "num_moduli": 3, "engine": engine}
    panels = dask.config.set({"twom-dist.panel-bytes": 1})
    with split_along_k(1, 1), panels, Callback(posttask=keep):
        found = computed(td.gemm(x, x, **options))
    assert same_bits(found, td.gemm(a, a, **options))
    assert len(given) == 3
    assert all(same_bits(*both) for both in given)


@cases("routine", [td.gemm, td.syr2k])
@cases("layers", [1, 2])
def test_a_step_of_a_sweep_may_run_again(routine, layers):
    """Though it puts its sums in place of those before."""
    a, b, c = (random_matrix(N, N, seed=x) for x in range(3))
    lazily = [da.from_array(t, chunks=7) for t in (a, b)]
    options = {"num_moduli": 3, "beta": 2}
    with steps_run_again(), in_sweeps((1, 2), (2, 3)), split_along_k(layers, 1):
        lazy = routine(*lazily, c, **options)
    assert count_stages(lazy)["twom-sweep"]
    assert same_bits(computed(lazy), routine(a, b, c, **options))


@cases(
    ("routine", "phi", "spread"),
    [("gemm", 1, 0), ("gemm", 1, 200), ("gemm", 4, 0), ("herk", 1, 0), ("herk", 4, 0)],
)
@cases("layers", [1, 2])
def test_a_first_step_that_does_not_await_pairs_changes_no_bit(
    routine, phi, spread, layers
):
    """Whether rows settle the moduli, also of shifted columns, or pairs are open."""
    scale, begun = 2.0 ** np.linspace(-spread, spread, 56), []
    a = random_matrix(28, 56, phi=phi, seed=1) * scale
    b = random_matrix(56, 28, phi=phi, seed=2) / scale[:, None]
    multiply, count = getattr(td, routine), 2 if routine == "gemm" else 1
    added = {"C": np.eye(28, dtype=complex), "beta": 2}

    def note(key, value, *_):
        if "twom-sweep" in key[0] and key[4] in (0, 4 * (layers - 1)):
            begun.append({done for _, done in value})

    x, y = (da.from_array(t, chunks=7) for t in (a, b))
    with (
        steps_run_again(),
        split_along_k(layers, 1),
        in_sweeps((1, 2), (2, 3), panel=3),
        Callback(posttask=note),
    ):
        lazy = multiply(*[x, y][:count], **added)
        found = computed(lazy)
    assert same_bits(found, multiply(*[a, b][:count], **added))
    # Each of two workers has two sweeps, the first of which need not wait.
    assert len(begun) == 4 * layers
    assert count_stages(lazy)["twom-sweep"] == {1: 12, 2: 16}[layers]
    assert begun.count({0}) == (2 * layers if phi > 1 else 0)


@pytest.mark.filterwarnings("ignore::twom_dist.errors.AccuracyWarning")
def test_a_product_that_turns_native_is_added_in_doubles():
    tiny = 2.0**-400
    a, b = np.array([[1.0, tiny], [1, 1]]), np.array([[tiny, 1.0], [1, 1]])
    x, y = (da.from_array(t, chunks=1) for t in (a, b))
    with split_along_k(2, 1):
        lazy = td.gemm(x, y, equilibrate=False)
    assert count_stages(lazy)["twom-panel"] == 2 * 2**2
    assert same_bits(computed(lazy), a @ b)


@cases("parts", [1, 2, 3])
@cases("layers", [1, 2, 5, 100])
@cases("count", [1, 2, 7, 40])
@cases("most", [1, 3, 1000])
def test_layers_parts_and_panels_are_even_and_whole(count, layers, parts, most):
    found = cut_inner(count, layers, parts, most)
    panels = [panel for layer in found for part in layer for panel in part]
    assert [x for lo, hi in panels for x in range(lo, hi)] == [*range(count)]
    assert len(found) <= min(layers, count)
    lengths = [sum(hi - lo for part in x for lo, hi in part) for x in found]
    assert max(lengths) == -(-count // layers)
    assert max(lengths) - min(lengths) <= 1 + max(lengths) // 2
    assert all(len(layer) <= parts for layer in found)
    assert max(hi - lo for lo, hi in panels) <= most


@cases("layers", [1, 2])
def test_a_slice_takes_its_own_sweep_alone(layers):
    x = da.ones((8, 8), chunks=1) * 1.0
    with in_sweeps((1, 1), (2, 2)), split_along_k(layers, 1):
        whole = td.gemm(x, x, num_moduli=4)
    part = whole[-1:, -1:]
    (found,) = dask.optimize(part)
    steps = [key for key in dict(found.dask) if str(key[0]).startswith("twom-sweep")]
    # The last panel of one layer is multiplied where tiles are decoded.
    assert len(steps) == 8 - (layers == 1)
    assert same_bits(part.compute(), whole.compute()[-1:, -1:])
