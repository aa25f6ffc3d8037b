"""Plans and explanations of every public routine, by the name that its caller uses."""

import operator
import re
from functools import partial
from inspect import signature

import dask.array as da
import numpy as np
from scipy.linalg.blas import zgemm

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import ArgumentError, PlanError

SPACES = {"": td, "integers": td.integers, "twofold": td.twofold, "xarray": td.xarray}
ROUTINES = {
    f"{space}.{name}".lstrip("."): getattr(module, name)
    for space, module in SPACES.items()
    for name in getattr(module, "__all__", dir(module))
    if hasattr(getattr(module, name), "ask")
}
SAME = "{}, with the same matrices".format
# What is none, and what to give instead.
NO_ROUTINES = [
    ("integers.matmul", td.integers.matmul, ""),
    ("transpose", td.transpose, ""),
    ("Product", td.Product, ""),
    ("'gemm'", "gemm", ""),
    ("<lambda>", lambda A, B: A @ B, ""),
    ("dot of numpy", np.dot, SAME("td.numpy.dot")),
    ("matmul of numpy", np.matmul, SAME("td.matmul")),
    ("einsum of dask", da.einsum, SAME("td.einsum")),
    ("matmul of operator", operator.matmul, SAME("td.matmul")),
    ("function zgemm of another library", zgemm, SAME("td.zgemm")),
]
WAYS = {"plan": td.plan, "explain": td.explain}


def arguments(name):
    """Shapes and options of a small call."""
    options = {"dtype": "int8"} if name.startswith("integers") else {}
    if name.startswith("xarray"):
        return None
    if name == "einsum":
        return ["ij,jk->ik", (40, 30), (30, 20)], options
    if name == "tensordot":
        return [(40, 30), (30, 20), 1], options
    if "gemm" in name or name == "matmul":
        return [(40, 30), (30, 20)], options
    return [(40, 30)] * (2 if "2k" in name else 1), options


@cases("way", WAYS)
@cases("name", [name for name in ROUTINES if arguments(name)])
def test_every_routine_is_planned_and_explained(name, way):
    shapes, options = arguments(name)
    found = WAYS[way](ROUTINES[name], *shapes, **options)
    update = re.search("(her|syr)2?k", name)
    assert found.routine == (update[0] if update else "gemm")
    if name in ("einsum", "tensordot"):
        return
    # Stacks of them as well.
    stacked = [(5, *shape) for shape in shapes]
    assert WAYS[way](ROUTINES[name], *stacked, **options).num_moduli == found.num_moduli


@cases("way", WAYS)
@cases("name", ROUTINES)
def test_an_option_that_it_does_not_take_is_refused_in_its_name(name, way):
    shapes, _ = arguments(name) or ([(3, 4)], {})
    with raises(ArgumentError, "unknown-option") as caught:
        WAYS[way](ROUTINES[name], *shapes, num_modul=3)
    assert caught.value.problem == f"{name} takes no 'num_modul'"
    first = next(iter(signature(ROUTINES[name]).parameters)).lower()
    with raises(ArgumentError, f"no-{first}"):
        WAYS[way](ROUTINES[name])


def list_functions():
    """List all that is public and called, but the classes of results."""
    for module in (*SPACES.values(), td.numpy, td.testing):
        for name in module.__all__:
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type):
                yield name, function


@cases(("name", "function"), list_functions())
def test_every_function_refuses_a_misspelt_option_in_its_name(name, function):
    # Routines of others have their options.
    first = {td.plan: td.gemm, td.explain: td.gemm, td.update_files: td.herk}
    files = ("a", "b", "c")[: 2 if function is td.update_files else 3]
    given = files if "files" in name else ()
    given = (*([first[function]] if function in first else ()), *given)
    if function in (td.numpy.matmul, td.numpy.einsum):
        # Options are passed on, to where operands are asked for as well.
        given = ("i", [1.0]) if "einsum" in name else ([1.0], [1.0])
    with raises(ArgumentError, "unknown-option") as caught:
        function(*given, accurac=1e-3)
    assert " takes no 'accurac'" in caught.value.problem
    if "accuracy" in signature(function).parameters or given:
        assert caught.value.remedy.startswith("Give accuracy, if that is meant. ")


def test_the_option_that_was_meant_may_be_that_of_the_plan():
    with raises(ArgumentError, "unknown-option") as caught:
        td.plan(td.gemm, (3, 4), (4, 5), n_worker=3)
    assert caught.value.remedy.startswith("Give n_workers, if that is meant. ")
    with raises(ArgumentError, "by-position"):
        td.matmul(np.eye(2), np.eye(2), np.eye(2))


@cases("way", WAYS)
@cases(("name", "given", "remedy"), NO_ROUTINES)
def test_what_is_no_routine_is_refused_in_its_name(name, given, remedy, way):
    with raises(PlanError, "routine") as caught:
        WAYS[way](given, (3, 4), (4, 5))
    assert caught.value.problem == f"{name} is not one of the routines"
    assert caught.value.remedy.startswith(f"Give {remedy}")
    assert name not in caught.value.remedy.split()


@cases("way", WAYS)
def test_a_partial_object_is_its_function_with_all_arguments(way):
    chosen = partial(partial(td.gemm, (30, 40), num_moduli=9), op_b="T", num_moduli=12)
    found = WAYS[way](chosen, (20, 40))
    assert found == WAYS[way](td.gemm, (30, 40), (20, 40), op_b="T", num_moduli=12)
    with raises(PlanError, "routine") as caught:
        td.update_files(partial(td.herk), "A.npy", "C.npy")
    assert caught.value.problem.startswith("functools.partial of herk is not one")
