"""One property: whatever way a product is computed, it has the same bits.

A call is drawn (routine, dtype, method, ops, triangle, diagonal, stack, scalars, data
up to the ends of the range), and a way to compute it (chunks, panels, parts along k,
chunks that are made again, tiles, layouts, engines, files, results in the caller's
arrays). Expected are the bits of each matrix by itself, in one tile of the CPU engine.
"""

import os
import time
import warnings
from contextlib import chdir
from math import prod
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

import twom_dist as td
from tests.support import strategies
from tests.support.expect import same_bits
from tests.support.splits import split_along_k
from tests.support.stored import save
from tests.support.strategies import pick
from twom_dist.errors import AccuracyError, PlanError
from twom_dist.store import open_matrix

WAYS = ("lazy", "lazy", "split", "tiles", "engine", "layout", "out", "again", "file")
STACKS = ((), (), (2,), (3, 2), (1, 4))
# More moduli than that are refused for some dtype, and fewer than three are rough.
TARGETS = [{}, {}, {"accuracy": "normwise"}, {"accuracy": 1e-3}] + [
    {"num_moduli": count} for count in (3, 6, 9, 14)
]
ONE_TILE = 4096


class Drawn(SimpleNamespace):
    def __repr__(self):
        return str(vars(self) | {"matrices": [x.shape for x in self.matrices]})

    def multiply(self, *matrices, **more):
        options = self.options | more
        found = getattr(self.space, self.name)(*matrices, **options)
        return list(found) if isinstance(found, tuple) else [found]


@st.composite
def data(draw):
    """Draw a dtype, a seed, and what makes matrices: of any magnitude that there is."""
    dtype, seed = pick(draw, *strategies.DTYPES), draw(st.integers(0, 2**16))
    end = 140 if dtype in ("float32", "complex64") else 1050
    lowest = pick(draw, 0, 0, -end // 2, -end)
    highest = max(lowest, pick(draw, 0, 0, end // 2, end - 30))
    phi, bad = pick(draw, 0.0, 1.0, 3.0), draw(st.integers(0, 3)) == 3

    def make(shape, number):
        rng = np.random.default_rng([seed, number, *shape])
        x = strategies.random_matrix(*shape, dtype, phi, [seed, number])
        shifts = rng.integers(lowest, highest, (shape[0], 1), endpoint=True)
        parts = x.view(x.real.dtype)
        with np.errstate(over="ignore", under="ignore"):
            parts[...] = np.ldexp(parts, shifts)
        if bad:
            parts.flat[rng.integers(parts.size, size=2)] = np.nan, np.inf
        return x

    return dtype, seed, make


@st.composite
def cuts(draw, size):
    """Cut an axis anywhere, into empty pieces as well."""
    ends = draw(st.lists(st.integers(0, size), max_size=4))
    return tuple(int(x) for x in np.diff([0, *sorted(ends), size]))


@st.composite
def calls(draw):
    (dtype, seed, make), name = draw(data()), pick(draw, *strategies.ROUTINES)
    is_double = dtype in ("float64", "complex128")
    twofold = is_double and draw(st.integers(0, 5)) == 5
    options = strategies.draw_options(draw, name, dtype, TARGETS)
    if twofold:
        ops = ("op", "op_a", "op_b", "uplo")
        options = {x: options[x] for x in ops if x in options}
    stack, way = pick(draw, *STACKS), pick(draw, *WAYS)
    if way in ("file", "out") and (stack or twofold):
        way = "lazy"
    m, n, k = (draw(st.integers(1, most)) for most in (23, 19, 31))
    shapes = strategies.shapes_of(name, options, m, n if name == "gemm" else m, k)
    matrices = [
        np.array([make(x, 99 * i + j) for j in range(prod(stack))])
        for i, x in enumerate(shapes)
    ]
    weighed = not (twofold or name.endswith("2k") or way == "file")
    if weighed and draw(st.booleans()):
        options["diag"] = strategies.diagonal_for(name, dtype, k, seed)
    return Drawn(
        name=name,
        space=td.twofold if twofold else td,
        matrices=[x.reshape(*stack, *x.shape[1:]) for x in matrices],
        options=options,
        stack=stack,
        way=way,
        engine=pick(draw, "cpu", "cpu", "reference"),
        chunks=[tuple(draw(cuts(x)) for x in (*stack, *shape)) for shape in shapes],
        tile=draw(st.integers(1, 40)),
        layout=pick(draw, *strategies.LAYOUTS),
        lazily=[draw(st.integers(0, 3)) > 0 for _ in range(4)],
        inputs=pick(draw, "hold", "auto", "stream"),
        panel_bytes=pick(draw, 1, "4 kB", "1 GiB"),
        split=pick(draw, (1, 1), (1, 2), (3, 2)),
        scheduler=pick(draw, "sync", "threads"),
        suffix=pick(draw, ".zarr", ".npy", ".h5"),
        seed=seed,
    )


def multiply_each(call):
    """Compute each matrix of the stack by itself, in one tile."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        places = [*np.ndindex(*call.stack)]
        found = [call.multiply(*(x[i] for x in call.matrices)) for i in places]
    # What no moduli compute is NumPy's product, whose bits hang on the cut.
    assume(not any("product is native" in str(x.message) for x in told))
    shape = *call.stack, *found[0][0].shape
    return [np.array(x).reshape(shape) for x in zip(*found, strict=True)]


def multiply_lazily(call):
    given = [lay_out(x, call.layout) for x in call.matrices]
    streams = call.inputs == "stream" and not call.stack
    for i, (x, chunks) in enumerate(zip(call.matrices, call.chunks, strict=True)):
        if streams:
            # Chunks that tasks can make again are none of an array in memory.
            chunks = tuple(tuple(c for c in axis if c) for axis in chunks)
            given[i] = da.from_array(x, chunks=chunks).map_blocks(np.copy)
        elif i == 0 or call.lazily[i]:
            given[i] = da.from_array(x, chunks=chunks)
    more = {"engine": call.engine}
    if "diag" in call.options and call.lazily[3]:
        more["diag"] = da.from_array(call.options["diag"], chunks=call.tile)
    inputs = "stream" if streams else "auto" if call.stack else call.inputs
    settings = {"inputs": inputs, "panel-bytes": call.panel_bytes}
    with dask.config.set({f"twom-dist.{x}": y for x, y in settings.items()}):
        try:
            found = call.multiply(*given, **more)
        except PlanError as error:
            # Chunks that are cut anew for others share the tasks that make them.
            assume(error.code != "inputs-held")
            raise
    return [x.compute(scheduler=call.scheduler) for x in found]


def multiply_files(call):
    names = [f"{x}{call.suffix}" for x in "abc"[: len(call.matrices)]]
    with TemporaryDirectory() as folder, chdir(folder):
        for name, x in zip(names, call.matrices, strict=True):
            save(name, x, tuple(max(1, size // 2) for size in x.shape))
        given = dict(call.options, chunks=call.tile)
        if "beta" in given:
            given["c"] = names.pop()
        if call.name == "gemm":
            td.multiply_files(*names, "out.zarr", **given)
        else:
            given["b"] = names[1] if len(names) > 1 else None
            td.rank_k_files(getattr(td, call.name), names[0], "out.zarr", **given)
        return [open_matrix("out.zarr")[:, :]]


def lay_out(x, layout):
    """Lay a matrix, or each of a stack, out in memory in another way."""
    if x.ndim == 2:
        return strategies.LAYOUTS[layout](x)
    return strategies.LAYOUTS[layout](x.reshape(-1, x.shape[-1])).reshape(x.shape)


def multiply_into(call, multiply):
    """Write a result between columns that stay, maybe over C."""
    given, stays = list(call.matrices), call.lazily[1]
    shape = multiply_each(call)[0].shape
    whole = np.full((shape[0], 2 * shape[1]), 77, given[0].dtype, order="CF"[stays])
    out = whole[:, ::2] if call.lazily[2] else whole[::-1, : shape[1]]
    if "beta" in call.options and call.lazily[3]:
        out[...] = given[-1]
        given[-1] = out
    assert multiply(*given, out=out) is out
    found = out.copy()
    out[...] = 77
    assert (whole == 77).all()
    return [found]


def multiply_otherwise(call):
    if call.way == "file":
        return multiply_files(call)
    if call.way == "split":
        # Parts are added in any order, and rows looked at in strips of any length.
        with split_along_k(*call.split, seed=call.tile):
            return multiply_lazily(call)
    if call.way == "lazy":
        return multiply_lazily(call)
    given = call.matrices
    if call.way == "layout":
        given = [lay_out(x, call.layout) for x in given]
    more = {"engine": "reference"} if call.way == "engine" else {}
    tile = call.tile if call.way in ("tiles", "out") else ONE_TILE
    with dask.config.set({"twom-dist.largest-tile": tile}):
        if call.way == "out":
            return multiply_into(call, lambda *x, out: call.multiply(*x, out=out)[0])
        if call.way == "again":
            call.multiply(*given)
        return call.multiply(*given, **more)


def check(call):
    try:
        expected = multiply_each(call)
    except AccuracyError:
        assume(False)
    for x, y in zip(multiply_otherwise(call), expected, strict=True):
        assert same_bits(x, y)


@settings(max_examples=110)
@given(calls())
def test_every_way_has_the_same_bits(call):
    check(call)


@pytest.mark.nightly
def test_every_way_has_the_same_bits_at_night():
    number = int(os.environ.get("TWOM_SEED", time.time()))
    print(f"TWOM_SEED={number}")
    slow = [HealthCheck.too_slow]
    own = settings(max_examples=500, derandomize=False, suppress_health_check=slow)
    seed(number)(own(given(calls())(check)))()
