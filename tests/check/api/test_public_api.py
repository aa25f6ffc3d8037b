"""The public names: exactly those of ``__all__``, and what they take."""

import copy
import inspect
import pickle
import re
import types
import typing
from dataclasses import fields
from multiprocessing.reduction import ForkingPickler

import pytest

import twom_dist
from tests.support.cases import cases
from tests.support.places import ROOT
from twom_dist.problem.options import Options

# The typed names of BLAS that each routine has: z, c complex; d, s real.
BLAS_TYPES = {"gemm": "zcds", "herk": "zc", "her2k": "zc", "syrk": "zcds"}
BLAS_TYPES["syr2k"] = BLAS_TYPES["syrk"]
BLAS_NAMES = {p + name for name, letters in BLAS_TYPES.items() for p in ("", *letters)}
PROMISED = BLAS_NAMES | {
    *("doctor", "einsum", "errors", "explain", "integers", "local_cluster", "matmul"),
    *("numpy", "plan", "tensordot", "testing", "transpose", "twofold", "xarray"),
}
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
OPTIONS = ("out", *(x.name for x in fields(Options)))
OF_PRODUCTS = ("A", "B", "C", "alpha", "beta", "op_a", "op_b", "diag", *OPTIONS)
OF_UPDATES = ("C", "alpha", "beta", "op", "uplo")
WORDS = dict.fromkeys(("op", "op_a", "op_b"), "N")
WORDS |= {"uplo": "full", "method": "2m", "engine": "auto"}


def public_functions():
    """Yield the functions and classes of ``__all__``, and the classes' methods."""
    for name in twom_dist.__all__:
        value = getattr(twom_dist, name)
        if callable(value) and typing.get_origin(value) is None:
            yield name, value
        for member, method in vars(value).items() if inspect.isclass(value) else ():
            method = getattr(method, "__func__", method)  # class, static methods
            if not member.startswith("_") and inspect.isfunction(method):
                yield f"{name}.{member}", method


def test_all_names_are_there_once_and_miss_nothing():
    listed = twom_dist.__all__
    assert dir(twom_dist) == sorted({*listed})
    assert len(listed) == len({*listed})
    assert {*listed} >= PROMISED
    namespace: dict[str, object] = {}
    exec("from twom_dist import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(listed)
    # Spaces are imported as modules.
    from twom_dist.twofold import herk
    from twom_dist.xarray import gemm

    assert (herk, gemm) == (twom_dist.twofold.herk, twom_dist.xarray.gemm)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_for_users_have_public_names_alone(page):
    text = page.read_text("utf-8")
    # But for `twom_dist.yaml` and names such as `td.plan_*`.
    for used in re.findall(r"\b(?:td|twom_dist)\.((?!yaml\b)[\w.]*\w\b)(?!\*)", text):
        name, _, member = used.partition(".")
        value = getattr(twom_dist, name, None)
        assert name in twom_dist.__all__, used
        if member and isinstance(value, types.ModuleType):
            assert member.partition(".")[0] in value.__all__, used


@cases(("name", "function"), public_functions())
def test_a_callable_describes_all_it_takes_and_can_be_sent(name, function):
    """Numpydoc sees no parameters of what is made of a signature, nor options."""
    doc, signature = inspect.getdoc(function), inspect.signature(function)
    taken = [x for x in signature.parameters if x not in ("self", "cls")]
    _, _, part = doc.partition("Parameters\n----------\n")
    part = re.split(r"\n\w+\n---", part)[0]
    heads = re.findall(r"(?m)^((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*)(?: :|$)", part)
    described = [name.lstrip("*") for head in heads for name in head.split(", ")]
    # Users make no objects of classes.
    called = not inspect.isclass(function)
    assert taken == described or not called
    if called and signature.return_annotation not in (None, "None"):
        said = doc.startswith("Return ") and taken == []
        assert said or re.search(r"^(Returns|Yields)\n-", doc, re.MULTILINE)
    # As processes of a pool are sent it.
    assert pickle.loads(ForkingPickler.dumps(function)) is function
    assert copy.deepcopy(function) is function


@cases("name", sorted(BLAS_NAMES))
def test_routines_show_what_they_take(name):
    function = getattr(twom_dist, name)
    taken = inspect.signature(function).parameters
    two = name.endswith("2k") or "gemm" in name
    expected = OF_PRODUCTS
    if "gemm" not in name:
        expected = ("A", *("B",) * two, *OF_UPDATES, *("diag",) * (not two), *OPTIONS)
    assert tuple(taken) == expected
    for parameter in WORDS.keys() & taken.keys():
        assert taken[parameter].default == WORDS[parameter]
    assert function.__name__ == function.__qualname__ == name
