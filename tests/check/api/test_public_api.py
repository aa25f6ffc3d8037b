"""The public names: exactly those of ``__all__``, each with its docstring."""

import copy
import enum
import inspect
import pickle
import re
import types
import typing
from multiprocessing.reduction import ForkingPickler

import numpy as np
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
# Names that an idiom brings into a module, not we.
IDIOMS = {"annotations", "TYPE_CHECKING"}


def is_public(name: str, value: object) -> bool:
    """Tell whether a name of the package is meant for users; modules are if listed."""
    hidden = name.startswith("_") or name in IDIOMS
    return not hidden and not isinstance(value, types.ModuleType)


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


def is_constructed_by_users(cls: type) -> bool:
    """Tell whether a class has a constructor with parameters to describe."""
    is_protocol = getattr(cls, "_is_protocol", False)
    return not is_protocol and not issubclass(cls, BaseException | enum.Enum)


def has_section(doc: str, *titles: str) -> bool:
    """Look for a numpydoc section: a title underlined in its full length."""
    return any(
        re.search(rf"^{title}\n-{{{len(title)}}}$", doc, re.MULTILINE)
        for title in titles
    )


def documented_names(doc: str) -> set[str]:
    """Read the names before the colons of a docstring: ``alpha, beta : complex``."""
    heads = re.findall(r"^((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*)(?: :|$)", doc, re.MULTILINE)
    return {name.lstrip("*") for head in heads for name in head.split(", ")}


def test_all_names_are_there_once_and_miss_nothing():
    names = {name: getattr(twom_dist, name) for name in dir(twom_dist)}
    public = {name for name, value in names.items() if is_public(name, value)}
    listed = twom_dist.__all__
    assert dir(twom_dist) == sorted(listed)
    assert len(listed) == len(set(listed))
    assert public | PROMISED <= set(listed)
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
    doc = inspect.getdoc(function)
    assert doc, f"{name} has no docstring"
    summary = doc.split("\n\n")[0]
    assert summary.endswith("."), f"{name}: the summary is a sentence: {summary!r}"
    signature, is_class = inspect.signature(function), inspect.isclass(function)
    if not is_class or is_constructed_by_users(function):
        taken = set(signature.parameters) - {"self", "cls"}
        if taken:
            assert has_section(doc, "Parameters", "Attributes"), f"{name}: Parameters"
        assert taken <= documented_names(doc), f"{name} does not describe all it takes"
    if not is_class and signature.return_annotation not in (None, "None"):
        assert has_section(doc, "Returns", "Yields"), f"{name}: no Returns"
    # As processes of a pool are sent it.
    assert pickle.loads(ForkingPickler.dumps(function)) is function
    assert copy.deepcopy(function) is function


def test_a_call_can_be_sent_to_another_process():
    a = np.arange(6.0).reshape(2, 3)
    call = ForkingPickler.dumps((twom_dist.zgemm, (a, a), {"op_b": "T"}))
    function, given, options = pickle.loads(call)
    assert (function(*given, **options) == a @ a.T).all()


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
    doc = inspect.getdoc(function)
    assert function.__name__ == function.__qualname__ == name
    assert "CuPy" in doc or "`gemm`" in doc
    assert "dask" in doc or "As `gemm`" in doc or "as in `gemm`" in doc
    if name not in BLAS_TYPES:
        assert f"`{name[1:]}` in " in doc
        assert ">>> " not in doc


def test_spaces_are_imported_as_modules():
    from twom_dist.twofold import herk as twofold
    from twom_dist.xarray import gemm as labelled

    from twom_dist.integers import gemm as exactly

    spaces = twom_dist.integers, twom_dist.twofold, twom_dist.xarray
    found = spaces[0].gemm, spaces[1].herk, spaces[2].gemm
    assert (exactly, twofold, labelled) == found
