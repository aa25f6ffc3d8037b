"""Rules that readers count on: names once, options by name, few parameters."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.places import ROOT
from twom_dist import errors

PACKAGE = ROOT / "twom_dist"
# The top level, packages apart.
TOP = {"__init__", "__main__", "config", "errors", "testing", "typing"}
# Rooms of the first level, and more would be a hall.
MOST_ROOMS = 24
MOST_PARAMETERS = 8
# Signatures that users see, click's, and the passes of kernels, which BLAS made long.
LONG = ("api", "cli", "kernels")
# What raises other errors than ours: for a protocol, for a caller in the same package
# that turns them into ours or does without, and to end a process.
RAISES = {
    "contract": {"AttributeError"},
    "cli": {"Exit", "BadParameter", "ValueError"},
    "cluster/local.py": {"SystemExit"},
    "jobs/disk.py": {"CancelledError"},
    "problem/scalars.py": {"OverflowError"},
    "store": {"FileNotFoundError", "OSError", "ValueError"},
    "tiles/rows.py": {"IndexError"},
    "tiles/transport": {"LeaseEndedError", "NotImplementedError", "OSError"},
}
# These hand options to another library: dask, zarr, Numba, NumPy, autoray, and a
# function of a client.
HANDED_ON = {"local_cluster", "open_array", "kernel", "start", "ask"}
HANDED_ON |= {"called", "forwarded", "__call__"}


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE), ast.parse(path.read_text("utf-8"))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_the_first_level_is_small():
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert modules == TOP
    assert len(modules | packages) <= MOST_ROOMS


def test_names_of_classes_and_modules_are_there_once():
    places = defaultdict(list)
    for path, tree in sources():
        engine = path.parts[0] == "kernels" and len(path.parts) > 2
        if not engine and not path.stem.startswith("__") and len(path.parts) > 1:
            places[path.stem].append(path.as_posix())
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[f"class {node.name}"].append(path.as_posix())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_what_is_asked_travels_by_name():
    """Options are parsed where a call enters: below no function takes any others."""
    wrong = []
    for path, tree in sources():
        for node in functions(tree):
            rest = node.args.kwarg
            named = rest is not None and rest.arg in ("options", "kwargs", "names")
            below = path.parts[0] not in ("api", "cli", "typing.py", "testing.py")
            # dask calls the first; the second adds NumPy's options to public functions.
            apart = path.stem in ("plugin", "casts")
            if named and below and not apart and node.name not in HANDED_ON:
                wrong.append(f"{path}: {node.name}")
        calls = (x for x in ast.walk(tree) if isinstance(x, ast.Call))
        if any(getattr(x.func, "id", "") == "locals" for x in calls):
            wrong.append(f"{path}: locals()")
    assert wrong == []


def test_functions_take_few_parameters():
    wrong = []
    for path, tree in sources():
        if path.parts[0] in LONG:
            continue
        for node in functions(tree):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            own = [x for x in given if x.arg not in ("self", "cls")]
            if len(own) > MOST_PARAMETERS:
                wrong.append(f"{path}: {node.name} takes {len(own)}")
    assert wrong == []


def test_what_is_refused_is_refused_by_an_error_of_ours():
    """A bug that an assertion finds is none."""
    others = set()
    for path, tree in sources():
        for node in ast.walk(tree):
            call = node.exc if isinstance(node, ast.Raise) else None
            kind = call.func if isinstance(call, ast.Call) else call
            name = getattr(kind, "attr", getattr(kind, "id", ""))
            # An error in a variable was made, or caught, where others name it.
            if not name[:1].isupper() or name == "AssertionError":
                continue
            own = getattr(errors, name, None)
            if own is None or not issubclass(own, errors.TwomError):
                others.add((path.as_posix(), name))
    for where, names in RAISES.items():
        found = {x for x in others if x[0].startswith(where) and x[1] in names}
        assert {name for _, name in found} == names, where
        others -= found
    assert others == set()
