"""Options: said once, and so cheap to add."""

import ast
import re
from dataclasses import fields
from inspect import signature

import pytest

import twom_dist as td
from tests.support.expect import raises
from tests.support.places import ROOT
from tests.support.sources import package, read
from twom_dist.errors import ArgumentError
from twom_dist.problem.options import Options, OptionsDict

NAMES = [x.name for x in fields(Options)]
# Files of the package that an option may change.
MOST_FILES = 8


def test_the_dictionary_of_type_checkers_has_the_same_names():
    assert [*OptionsDict.__annotations__] == NAMES


def test_nobody_types_the_options_again():
    """Neither as parameters nor as arguments: a new one changes no signature."""
    wrong = []
    for path, found in package():
        for node in found:
            named = ()
            if isinstance(node, ast.FunctionDef):
                named = [x.arg for x in (*node.args.args, *node.args.kwonlyargs)]
            elif isinstance(node, ast.Call):
                named = [x.arg for x in node.keywords]
            if len({*named} & {*NAMES} - {"engine"}) > 2:
                wrong.append(f"{path}:{node.lineno}")
    assert wrong == []


def test_the_recipe_names_the_files_that_an_option_is_in():
    """As for equilibrate, which is parsed, told to tasks, typed and kept by jobs."""
    recipe = read(ROOT / "CONTRIBUTING.md").partition("## Add an option\n")[2]
    paths = re.findall(r"`(twom_dist/\S+)`", recipe.partition("\n## ")[0])
    assert 0 < len(paths) <= MOST_FILES
    assert [x for x in paths if "equilibrate" not in read(ROOT / x)] == []


@pytest.mark.parametrize(
    ("routine", "given"), [(td.gemm, 2), (td.herk, 1), (td.matmul, 2), (td.use, 0)]
)
def test_every_option_is_shown_and_no_other_is_taken(routine, given):
    shown = signature(routine).parameters
    assert [x for x in shown if x in NAMES] == NAMES
    others = {"method": "auto"} if routine in (td.matmul, td.use) else {}
    defaults = vars(Options()) | others
    assert {x: shown[x].default for x in NAMES} == defaults
    with raises(ArgumentError, "unknown-option"):
        routine(*[[[1.0]]] * given, seed=0)
