"""The public names: exactly those of ``__all__``, each with its docstring."""

import copy
import inspect
import pickle
import re
import types
import typing
from multiprocessing.reduction import ForkingPickler

import pytest

import twom_dist
from tests.support.cases import cases
from tests.support.places import ROOT

# The typed names of BLAS that each routine has: z, c complex; d, s real.
BLAS_TYPES = {
    "gemm": "zcds",
    "herk": "zc",
    "her2k": "zc",
    "syrk": "zcds",
    "syr2k": "zcds",
}
BLAS_NAMES = {
    prefix + routine
    for routine, prefixes in BLAS_TYPES.items()
    for prefix in ("", *prefixes)
}
PROMISED = BLAS_NAMES | {
    "doctor",
    "einsum",
    "errors",
    "explain",
    "integers",
    "local_cluster",
    "matmul",
    "numpy",
    "plan",
    "tensordot",
    "testing",
    "transpose",
    "twofold",
    "xarray",
}


def public_callables() -> dict[str, object]:
    """Collect the functions and classes of ``__all__``, and the classes' methods."""
    found: dict[str, object] = {}
    for name in getattr(twom_dist, "__all__", ()):
        value = getattr(twom_dist, name, None)
        is_type_alias = typing.get_origin(value) is not None
        if not callable(value) or is_type_alias:
            continue
        found[name] = value
        if inspect.isclass(value):
            for member, method in vars(value).items():
                unwrapped = getattr(method, "__func__", method)  # class, static methods
                if not member.startswith("_") and inspect.isfunction(unwrapped):
                    found[f"{name}.{member}"] = unwrapped
    return found


def documented_names(doc: str) -> set[str]:
    """Read the names before the colons of a docstring: ``alpha, beta : complex``."""
    heads = re.findall(r"^((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*)(?: :|$)", doc, re.MULTILINE)
    return {name.lstrip("*") for head in heads for name in head.split(", ")}


def test_all_names_are_there_once_and_miss_nothing():
    names = {name: getattr(twom_dist, name) for name in dir(twom_dist)}
    listed = twom_dist.__all__
    assert [*names] == sorted({*listed})
    assert len(listed) == len(names)
    assert {*names} >= PROMISED
    namespace: dict[str, object] = {}
    exec("from twom_dist import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(listed)


PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]


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


@cases(("name", "function"), public_callables().items())
def test_a_callable_says_what_it_does_takes_and_returns(name, function):
    doc, signature = inspect.getdoc(function), inspect.signature(function)
    assert doc.split("\n\n")[0].endswith("."), "the summary is a sentence"
    is_class = inspect.isclass(function)
    taken = set(signature.parameters) - {"self", "cls"}
    # Numpydoc checks the sections; those of errors and protocols users do not make.
    if not is_class or not issubclass(function, BaseException | typing.Protocol):
        assert taken <= documented_names(doc), f"{name} does not describe all it takes"
    # As processes of a pool are sent it.
    assert pickle.loads(ForkingPickler.dumps(function)) is function
    assert copy.deepcopy(function) is function


OPTIONS = ("accuracy", "num_moduli", "method", "out", "engine")
OF_PRODUCTS = ("A", "B", "C", "alpha", "beta", "op_a", "op_b", "diag", *OPTIONS)
OF_UPDATES = ("C", "alpha", "beta", "op", "uplo")
WORDS = {
    "op": ("N", "T", "C"),
    "op_a": ("N", "T", "C"),
    "op_b": ("N", "T", "C"),
    "uplo": ("full", "lower", "upper"),
    "method": ("2m", "3m", "4m", "hybrid", "eisenstein", "blas", "auto"),
    "engine": ("auto", "cpu", "cuda", "reference"),
}


@cases("name", sorted(BLAS_NAMES))
def test_routines_show_what_they_take(name):
    function = getattr(twom_dist, name)
    taken = inspect.signature(function).parameters
    two = name.endswith("2k") or "gemm" in name
    expected = OF_PRODUCTS
    if "gemm" not in name:
        expected = ("A", *("B",) * two, *OF_UPDATES, *("diag",) * (not two), *OPTIONS)
    assert tuple(taken) == (*expected, *("equilibrate",) * two)
    for parameter, words in WORDS.items():
        if parameter in taken:
            assert typing.get_args(taken[parameter].annotation) == words
            assert taken[parameter].default == words[0]
    assert function.__name__ == function.__qualname__ == name


def test_spaces_are_imported_as_modules():
    from twom_dist.twofold import herk as twofold
    from twom_dist.xarray import gemm as labelled

    from twom_dist.integers import gemm as exactly

    spaces = twom_dist.integers, twom_dist.twofold, twom_dist.xarray
    found = spaces[0].gemm, spaces[1].herk, spaces[2].gemm
    assert (exactly, twofold, labelled) == found
