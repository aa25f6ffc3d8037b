"""Options: said once, and so cheap to add."""

import ast
import pickle
import re
from dataclasses import fields
from inspect import signature

import twom_dist as td
from tests.support.places import ROOT
from tests.support.sources import package, read
from twom_dist.problem.choice import Choice
from twom_dist.problem.options import Options, OptionsDict

NAMES = [x.name for x in fields(Options)]


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
    assert 0 < len(paths) <= 8
    assert [x for x in paths if "equilibrate" not in read(ROOT / x)] == []


def test_contractions_and_blocks_go_by_size_unless_another_method_is_given():
    for function in (td.matmul, td.tensordot, td.einsum, td.use):
        shown = signature(function).parameters
        found = {x: shown[x].default for x in NAMES}
        assert found == vars(Options()) | {"method": "auto"}


def test_a_choice_is_hashed_and_sent_by_all_of_its_fields():
    """Its hash is kept, and means nothing to another process."""
    choice = Choice.of(num_moduli=16)
    hash(choice)
    make, given = choice.__reduce__()
    assert given == tuple(getattr(choice, x.name) for x in fields(Choice))
    sent = pickle.loads(pickle.dumps(choice))
    assert (make, sent, len(vars(sent))) == (Choice, choice, len(given))
    assert len({choice, sent, Choice.of(num_moduli=15)}) == 2
