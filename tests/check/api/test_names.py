"""Every public routine by the name that its caller uses: planned and explained."""

import re
from functools import partial
from inspect import signature

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import ArgumentError

SPACES = {"": td, "integers": td.integers, "twofold": td.twofold, "xarray": td.xarray}
ROUTINES = {
    f"{space}.{name}".lstrip("."): getattr(module, name)
    for space, module in SPACES.items()
    for name in getattr(module, "__all__", dir(module))
    if hasattr(getattr(module, name), "ask")
}


@cases("way", [td.plan, td.explain])
@cases("name", [name for name in ROUTINES if not name.startswith("xarray")])
def test_every_routine_is_planned_and_explained(name, way):
    call = partial(way, ROUTINES[name])
    if name.startswith("integers"):
        call = partial(call, dtype="int8")
    if update := re.search("(her|syr)2?k", name):
        given = [(40, 30)] * (2 if "2k" in name else 1)
    else:
        given = [(40, 30), (30, 20)]
    found = call(*given)
    assert found.routine == (update[0] if update else "gemm")
    stacked = call(*((5, *shape) for shape in given))
    assert stacked.num_moduli == found.num_moduli


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
    with raises(ArgumentError, "unknown-option") as caught:
        function(*given, accurac=1e-3)
    assert " takes no 'accurac'" in caught.value.problem
    if "accuracy" in signature(function).parameters or given:
        assert caught.value.remedy.startswith("Give accuracy, if that is meant. ")
