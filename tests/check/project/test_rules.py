"""Rules that readers count on: short files, names once, options by name, subjects."""

import ast
import io
import re
import tokenize
from collections import defaultdict

from tests.check.project.test_layering import our_imports
from tests.support.places import ROOT
from tests.support.sources import find_files, nodes, package, read
from twom_dist import errors
from twom_dist.kernels import Engine

MAX_LINES = 350
MEANINGLESS_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
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
    "contractions": {"AttributeError"},
    "cli": {"Exit"},
    "workers/local.py": {"SystemExit"},
    "jobs/execution.py": {"CancelledError"},
    "problem/dtypes.py": {"OverflowError"},
    "store": {"FileNotFoundError", "ValueError"},
    "tiles/rows.py": {"IndexError"},
    "workers/transport/lane": {"LaneBrokenError", "LeaseEndedError"},
    "workers/transport/worker": {"LaneBrokenError"},
    # dask asks for NotImplementedError of a family that leaves an object to the next.
    "workers/transport": {"LeaseEndedError", "NotImplementedError", "OSError"},
}
# These hand options to another library: dask, zarr, Numba, NumPy, autoray, and a
# function of a client.
HANDED_ON = {"local_cluster", "open_array", "kernel", "start", "ask"}
HANDED_ON |= {"called", "forwarded", "__call__"}


def functions(found):
    return (node for node in found if isinstance(node, ast.FunctionDef))


# --- files and names ------------------------------------------------------------------


def test_files_are_short_and_named_by_their_subject():
    folders, kinds = ("twom_dist", "tests", "benchmarks"), ("py", "cu", "cuh")
    files = find_files(*(f"{x}/**/*.{y}" for x in folders for y in kinds))
    assert [x for x, path in files.items() if path.stem in MEANINGLESS_NAMES] == []
    lengths = {x: len(read(path).splitlines()) for x, path in files.items()}
    assert {x: lines for x, lines in lengths.items() if lines > MAX_LINES} == {}


def test_the_first_level_is_small():
    folder = ROOT / "twom_dist"
    modules = {path.stem for path in folder.glob("*.py")}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert modules == TOP
    assert len(modules | packages) <= MOST_ROOMS


def test_names_of_classes_are_there_once():
    """Modules of two rooms may share a name: their rooms tell them apart."""
    places = defaultdict(list)
    for path, found in package():
        for node in found:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.as_posix())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_program_of_a_product_is_one_page_and_alone_calls_its_stages():
    program = read(ROOT / "twom_dist" / "tiles" / "program.py")
    assert len(program.splitlines()) <= 260
    imports = [(name, target) for name, _, target in our_imports()]
    for stages, caller in (
        ("stages", "program"),
        ("cells", "program"),
        ("analysis.pair_stages", "analysis.moduli"),
    ):
        callers = {name for name, target in imports if target == f"tiles.{stages}"}
        assert callers == {f"tiles.{caller}"}


# --- functions and errors -------------------------------------------------------------


def test_what_is_asked_travels_by_name():
    """Options are parsed where a call enters: below no function takes any others.

    But those that a type names one by one. And what is handed on by name can be
    followed by name.
    """
    wrong = []
    for path, found in package():
        for node in functions(found):
            rest = node.args.kwarg
            named = rest is not None and rest.arg in ("options", "kwargs", "names")
            named = named and not ast.unparse(rest.annotation).startswith("Unpack[")
            below = path.parts[0] not in ("api", "cli", "typing.py", "testing.py")
            # dask calls it.
            apart = path.stem == "plugin"
            if named and below and not apart and node.name not in HANDED_ON:
                wrong.append(f"{path}: {node.name}")
        calls = (x for x in found if isinstance(x, ast.Call))
        if any(getattr(x.func, "id", "") == "locals" for x in calls):
            wrong.append(f"{path}: locals()")
    assert wrong == []


def test_functions_take_few_parameters():
    wrong = []
    for path, found in package():
        for node in functions(found) if path.parts[0] not in LONG else ():
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            own = [x for x in given if x.arg not in ("self", "cls")]
            if len(own) > MOST_PARAMETERS:
                wrong.append(f"{path}: {node.name} takes {len(own)}")
    assert wrong == []


def test_what_is_refused_is_refused_by_an_error_of_ours():
    """A bug that an assertion finds is none."""
    others = set()
    for path, found in package():
        for node in found:
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


# --- docstrings and comments: who does what, with the subject first -------------------

NOT_FIRST = re.compile(r"(What|Whether|Who|How|Of|As in)\b")
NOT_ABSENT = re.compile(r"\b(is|are) no\b")
OF = re.compile(r"[#/]+:?\s*Of\b")


def find_faults(source, found):
    """Yield the line and the words of each docstring and comment that breaks a rule."""
    for node in found:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                first = text.strip().partition("\n")[0]
                if NOT_FIRST.match(first) or NOT_ABSENT.search(first):
                    yield node.lineno, first
    if not re.search(r"#:?\s*Of\b", source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and OF.match(token.string):
            yield token.start[0], token.string


def test_docstrings_and_comments_begin_with_their_subject():
    folders = ("twom_dist/**", "benchmarks/**", "cluster/**", "docs")
    wrong = [
        f"{name}:{line}: {text}"
        for name, path in find_files(*(f"{x}/*.py" for x in folders)).items()
        for line, text in find_faults(read(path), nodes(path))
    ]
    kinds = ("twom_dist/**/*.cu", "twom_dist/**/*.cuh", "twom_dist/*.yaml")
    wrong += [
        f"{name}:{number}: {line.strip()}"
        for name, path in find_files(*kinds, "cluster/*.s[bh]*").items()
        for number, line in enumerate(read(path).splitlines(), start=1)
        if OF.match(line.strip())
    ]
    assert wrong == []


# --- tests: they ask public names or the contract of a room, and patch little ---------

# What a room promises to others beside what its __init__ exports.
CONTRACTS = {f"kernels.{x}" for x in ("protocol", "registry", "family")}
CONTRACTS |= {"problem.problem", "problem.call", "tiles.spec", "tiles.grid"}
PATCHES = re.compile(r"\bpatch\.object|\bmonkeypatch\.set(attr|item)")
# Files of tests. What is inside a room changes, and so do its tests.
MOST_INNER, MOST_PATCHING = 34, 13


def reaches_inside(path):
    """Tell whether a file of tests imports what is inside of a room."""
    modules = (x.module or "" for x in nodes(path) if isinstance(x, ast.ImportFrom))
    parts = (x.partition(".") for x in modules)
    return any(
        top == "twom_dist" and "." in room and room not in CONTRACTS
        for top, _, room in parts
    )


def test_few_tests_reach_inside_of_rooms_or_patch():
    files = [*find_files("tests/**/test_*.py").values()]
    inner = [x for x in files if reaches_inside(x)]
    patching = [x for x in files if PATCHES.search(read(x))]
    assert len(inner) <= MOST_INNER
    assert len(patching) <= MOST_PATCHING


def test_few_files_know_of_a_diagonal():
    """It belongs to an operand, which all others hand on; see decision 41."""
    files = find_files("twom_dist/**/*.py").items()
    knowing = [x for x, path in files if re.search(r"\b(diag|Scaled)\b", read(path))]
    assert len(knowing) <= 10, knowing


def test_an_engine_has_few_methods():
    """Those of a product, of an analysis, and others that have defaults."""
    members = [x for x in dir(Engine) if not x.startswith("_")]
    methods = [x for x in members if callable(getattr(Engine, x))]
    assert len(methods) <= 22
