"""The import rule: a module imports only from its own layer and from those below it."""

import ast
import importlib.util
from functools import cache
from graphlib import TopologicalSorter
from itertools import accumulate

from tests.support.places import ROOT
from tests.support.sources import find_files, parse

PACKAGE = "twom_dist"

# From the bottom: modules and packages of each layer. The longest entry that fits a
# module counts.
LAYERS = (
    ("errors", "typing", "config"),
    ("moduli",),
    ("kernels.family",),
    ("kernels.statistics",),
    ("kernels.analysis",),
    ("kernels.device_memory",),
    ("kernels.limits", "kernels.protocol", "kernels.registry"),
    ("kernels",),
    # A receiver of blocks knows how tiles travel, and tasks make them so.
    ("tiles", "workers.transport"),
    ("auto",),
    ("plan",),
    ("problem",),
    ("workers",),
    ("run", "store", "testing"),
    ("interop",),
    # The doctor multiplies.
    ("workers.diagnosis",),
    ("jobs",),
    ("api",),
    ("contractions", "integers"),
    ("patching",),
    # "": twom_dist/__init__.py, public names only.
    ("cli", "__main__", ""),
)
# What knows less than lies below it.
AT_MOST = {
    "config": ("errors",),
    "moduli": ("errors", "typing"),
    "kernels": ("errors", "typing", "config", "moduli"),
    "api.types": ("typing", "problem.call", "problem.options"),
    "testing": ("errors", "problem.arguments"),
    "store": ("errors", "typing", "tiles.integers"),
}
# Engines are loaded by their names; what is inside them is for those who examine it.
ENGINES = tuple(f"kernels.{name}" for name in ("cpu", "cuda", "reference"))
# What compiles kernels serves all that is compiled.
COMPILER = "kernels.cpu.jit"
EXAMINERS = ("workers.diagnosis", "cli.outputs", "jobs.resources")

# Third party -> layers that import it at the top of a module, and layers that import it
# where it is needed: inside a function, or for the type checker alone.
ANYWHERE = ("",)
COMPILED = "kernels.cpu", "kernels.cuda.driver"
THIRD_PARTIES = {
    "cupy": (("kernels.cuda",), ANYWHERE),
    "cupyx": (("kernels.cuda",), ("kernels",)),
    "llvmlite": (COMPILED, COMPILED),
    "numba": (COMPILED, COMPILED),
}

# Exact integers and plans are pure: they neither build graphs nor ask a cluster.
PURE_LAYERS = ("moduli", "plan")
IMPURE = ("dask", "distributed")
STILL_PURE = "dask.utils"


def covers(prefix, name):
    """Tell whether ``name`` is ``prefix`` or lies in it; ``""`` covers everything."""
    return not prefix or name == prefix or name.startswith(prefix + ".")


def covers_any(prefixes, name):
    return any(covers(prefix, name) for prefix in prefixes)


@cache
def layer_of(name):
    fits = {
        entry: height
        for height, entries in enumerate(LAYERS)
        for entry in entries
        if name == entry or (entry and covers(entry, name))
    }
    return fits[max(fits, key=len)] if fits else None


def find_imports(tree, package):
    """Yield what is imported, in full, with its line and whether it is deferred.

    ``package`` resolves the relative ones.
    """
    todo = [(tree, False)]
    while todo:
        node, deferred = todo.pop()
        base = ""
        if isinstance(node, ast.ImportFrom):
            relative_name = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(relative_name, package) + "."
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield base + alias.name, node.lineno, deferred
        kinds = ast.FunctionDef | ast.AsyncFunctionDef
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        below = deferred or guarded or isinstance(node, kinds)
        children = ast.iter_child_nodes(node)
        todo += [(x, below) for x in children if not isinstance(x, ast.expr)]


@cache
def our_module(target):
    """Cut an imported name down to the module of ours that holds it, else None."""
    if not covers(PACKAGE, target):
        return None
    parts = target.split(".")[1:]
    while parts:
        place = ROOT.joinpath(PACKAGE, *parts)
        if place.is_dir() or place.with_suffix(".py").is_file():
            break
        parts.pop()
    return ".".join(parts)


@cache
def all_imports():
    """List the imports of each module: a place for a message, what, if deferred."""
    listed = {}
    for place, path in find_files(f"{PACKAGE}/**/*.py").items():
        parts = place.removesuffix(".py").split("/")
        package = ".".join(parts[:-1])
        name = package if parts[-1] == "__init__" else ".".join(parts)
        listed[name.partition(".")[2]] = [
            (f"{place}:{line} imports {target}", target, deferred)
            for target, line, deferred in find_imports(parse(path), package)
        ]
    return listed


@cache
def our_imports():
    """List those of modules of ours: a module, the place for a message, a module."""
    listed = (
        (name, place, our_module(target))
        for name, imports in all_imports().items()
        for place, target, _ in imports
    )
    return [(name, place, x) for name, place, x in listed if x is not None]


def packages_of(name):
    return {"", *accumulate(name.split("."), lambda x, y: f"{x}.{y}")}


def test_every_module_has_a_layer_and_imports_only_from_below():
    names = {*all_imports()}
    assert [name for name in names if layer_of(name) is None] == []
    named = {*(x for layer in LAYERS for x in layer), *AT_MOST, *ENGINES, *EXAMINERS}
    assert named - names == set()
    wrong = []
    for name, place, target in our_imports():
        known = [x for x in AT_MOST if covers(x, name)]
        engines = [x for x in ENGINES if covers(x, target)]
        engines = [] if target == COMPILER else engines
        if (
            layer_of(target) > layer_of(name)
            or not all(covers_any((x, *AT_MOST[x]), target) for x in known)
            # Engines are imported by name alone.
            or not all(covers_any((x, *EXAMINERS), name) for x in engines)
        ):
            wrong.append(place)
    assert wrong == []


def test_no_module_is_imported_by_what_it_imports():
    """Its own packages do not count: Python is importing those already."""
    graph = {}
    for name, _, target in our_imports():
        graph.setdefault(name, set()).update(packages_of(target) - packages_of(name))
    TopologicalSorter(graph).prepare()  # or a CycleError, which lists the modules


def test_third_parties_stay_in_their_layers():
    wrong = []
    for name, imports in all_imports().items():
        for place, target, deferred in imports:
            package = target.split(".")[0]
            top, inside = THIRD_PARTIES.get(package, (ANYWHERE, ANYWHERE))
            allowed = (*top, *inside) if deferred else top
            impure = covers_any(IMPURE, target) and not covers(STILL_PURE, target)
            if (impure and covers_any(PURE_LAYERS, name)) or not covers_any(
                allowed, name
            ):
                wrong.append(place)
    assert wrong == []
