"""Lazy results show what they will cost, and dask shows how far they have come."""

import pickle
from collections import Counter
from xml.etree import ElementTree

import dask
import dask.array as da
import numpy as np
import pytest
from dask.base import tokenize
from dask.callbacks import Callback
from dask.diagnostics import ProgressBar
from dask.utils import key_split

import twom_dist as td
from tests.support.strategies import random_matrix
from twom_dist.run.lazy_stacks import STAGE as STACK
from twom_dist.tiles.graph import PANEL, PRODUCT, SCALING_STAGES, UPDATE

A = random_matrix(12, 9, seed=1)
CHUNKS = (4, 3)
RESULTS = {
    "gemm": lambda a: td.gemm(a, a, op_b="C"),
    "scaled": lambda a: td.gemm(a, 2 * a, op_b="C", equilibrate=True),
    "blas": lambda a: td.gemm(a, a, op_b="C", method="blas"),
    "herk": td.herk,
    "lower": lambda a: td.herk(a, uplo="lower"),
    "syr2k": lambda a: td.syr2k(a, a),
    "dd": lambda a: td.gemm(a, a, op_b="C", out="dd")[1],
}
STAGES = {PRODUCT, PANEL, UPDATE, *SCALING_STAGES}


def make(name):
    return RESULTS[name](da.from_array(A, chunks=CHUNKS))


def cost_of(array):
    return repr(array).partition("\n")[2]


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_the_cost_of_its_plan(name):
    made = make(name)
    assert isinstance(made, da.Array)
    plain, cost = repr(made).split("\n")
    assert plain.startswith("dask.array<")
    html = made._repr_html_()
    assert html.endswith(f"<p>{cost}</p>")
    assert ElementTree.fromstring(f"<div>{html}</div>")[-1].text == cost


def test_the_cost_is_that_of_the_plan():
    a = da.from_array(A, chunks=CHUNKS)
    plan, cost = td.plan_gemm(a, a, op_b="C"), cost_of(make("gemm"))
    assert cost == str(plan.cost())
    for part in (
        f"gemm: {plan.num_tasks} tasks",
        f"{plan.num_int8_gemms} int8 products",
        f"{plan.num_moduli} moduli",
    ):
        assert part in cost
    assert "moduli" not in cost_of(make("blas"))


def test_stacks_and_contractions_show_the_sum_of_their_products():
    a = da.from_array(A, chunks=CHUNKS)
    stack = td.herk(da.from_array(np.stack([A] * 4), chunks=(2, *CHUNKS)))
    assert cost_of(stack).startswith("herk, 4 products: 2 tasks, 64 int8 products of ")
    nothing = td.herk(da.ones((0, 3, 2), chunks=1))
    assert cost_of(nothing).startswith("herk, 0 products: 1 task, ")
    words = td.herk(da.from_array(np.stack([A] * 4), chunks=4), out="dd")
    assert cost_of(words[0]) == cost_of(words[1]) != ""
    given = {"method": "2m", "num_moduli": 15}
    network = td.einsum("ij,jk,kl->li", a, a.T, 2 * a, optimize=False, **given)
    assert cost_of(network).startswith("einsum, 2 products: ")
    assert "with 15 moduli" in cost_of(network)
    plan = td.plan_gemm(a, 2 * a.T, num_moduli=15)
    assert cost_of(td.tensordot(a, 2 * a.T, 1, **given)) == str(plan.cost())
    integers = da.from_array(A.real.astype(int), chunks=CHUNKS)
    exact = td.gaussian_matmul(integers, integers.T)
    assert cost_of(exact).startswith("gaussian_matmul, 4 products: ")
    prefixes = {key_split(key) for key in exact.dask}
    assert "twom-gaussian" in prefixes


def test_what_is_made_of_a_result_is_a_plain_array():
    made, plain = make("herk"), da.ones((12, 12), chunks=4)
    with dask.config.set(scheduler="sync"):
        derived = [
            made[:3],
            made + plain,
            plain + made,
            plain @ made,
            np.concatenate([plain, made]),
            made.copy(),
            made.persist(),
            *dask.optimize(made),
            pickle.loads(pickle.dumps(made)),
        ]
        assert all(type(x) is da.Array and cost_of(x) == "" for x in derived)
        assert (derived[2] == 1 + made.compute()).all().compute()
        assert (derived[-1] == td.herk(A)).all().compute()
    assert tokenize(made) == tokenize(derived[-1])


def test_a_result_that_is_written_to_shows_no_cost():
    made = make("herk")
    made[0, 0] = 7
    assert cost_of(made) == ""
    assert made[0, 0].compute(scheduler="sync") == 7


@pytest.mark.parametrize("name", RESULTS)
def test_progress_counts_tasks_by_stage(name, capsys):
    seen = Counter()
    with (
        dask.config.set({"twom-dist.panel-bytes": 1}),
        Callback(posttask=lambda key, *_: seen.update([key_split(key)])),
        ProgressBar(),
    ):
        make(name).compute(scheduler="sync")
    assert "100% Completed" in capsys.readouterr().out
    own = {stage for stage in seen if stage.startswith("twom-")}
    assert own <= STAGES
    assert own >= {PANEL, PRODUCT}
    # Aliases of computed tiles count as much as mirror images.
    assert seen[UPDATE] == (9 if name in ("herk", "lower", "syr2k") else 0)


def test_progress_counts_blocks_of_stacks():
    seen = Counter()
    stacks = da.from_array(np.stack([A] * 4), chunks=(2, *CHUNKS))
    with Callback(posttask=lambda key, *_: seen.update([key_split(key)])):
        td.herk(stacks).compute(scheduler="sync")
    assert seen[STACK] == 2
