"""The import rule: a module imports only from the layers below it.

The tests read the sources; the one that imports the package does so in a process of its
own.
"""

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "twom_dist"

# Layer (module or package under twom_dist) -> what it may import of twom_dist, itself
# aside. The longest entry that fits a module counts. A new layer is one line.
FOUNDATION = ("errors", "typing", "config")
PLANNING = ("accuracy", "checks", "memory", "plan", "tiles")
RUNNING = ("cluster", "execute", "store")
ENGINES = (
    "kernels.contract",
    "kernels.family",
    "kernels.limits",
    "kernels.registry",
)
BELOW_PLANNING = (*FOUNDATION, "moduli", *ENGINES, *PLANNING)
BELOW_RUNNING = (*BELOW_PLANNING, "kernels", *RUNNING)
EVERYTHING = ("",)

LAYERS = {
    "errors": (),
    "typing": ("errors",),
    "config": ("errors", "typing"),
    "moduli": ("errors",),
    "kernels": (*FOUNDATION, "moduli"),
    "kernels.contract": (
        *("errors", "typing", "moduli"),
        *("kernels.family", "kernels.limits"),
    ),
    "kernels.limits": FOUNDATION,
    "kernels.family": (),
    "kernels.registry": ("errors", "kernels.contract", "kernels.family"),
    "accuracy": BELOW_PLANNING,
    "checks": BELOW_PLANNING,
    "memory": BELOW_PLANNING,
    "plan": BELOW_PLANNING,
    "tiles": BELOW_PLANNING,
    "cluster": BELOW_RUNNING,
    "execute": BELOW_RUNNING,
    "store": BELOW_RUNNING,
    "eager": BELOW_RUNNING,
    "eager_rank": (*BELOW_RUNNING, "eager"),
    "rank_k": (*BELOW_RUNNING, "eager_rank", "lazy"),
    "lazy": BELOW_RUNNING,
    "blas": (*BELOW_RUNNING, "eager", "lazy"),
    "jobs": (*BELOW_RUNNING, "eager", "lazy", "blas", "rank_k"),
    "testing": BELOW_RUNNING,
    "cli": EVERYTHING,
    "demo": EVERYTHING,
    "__main__": EVERYTHING,
    "": EVERYTHING,  # twom_dist/__init__.py: public names only
}

# Third party -> layers that import it at the top of a module, and layers that import it
# where it is needed: inside a function, or for the type checker alone.
ANYWHERE = ("",)
THIRD_PARTIES = {
    "cupy": (("kernels.cuda", "cluster"), ANYWHERE),
    "cupyx": (("kernels.cuda",), ("kernels.cuda",)),
    "numba": (("kernels.cpu",), ("kernels.cpu",)),
    "onnxruntime": (("kernels.cpu",), ("kernels.cpu",)),
}

# Exact integers and plans are pure: they neither build graphs nor ask a cluster.
PURE_LAYERS = ("moduli", "accuracy", "memory", "plan")
IMPURE_THIRD_PARTIES = ("dask", "distributed")

# What `import twom_dist` leaves alone, so that it is quick and works everywhere.
NOT_LOADED = ("cupy", "numba", "onnxruntime", "zarr", "h5py", "distributed")

MAX_LINES = 400
MEANINGLESS_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}


@dataclass(frozen=True)
class Import:
    """One imported name: ``target`` in full, and where the statement stands.

    ``deferred``: inside a function or under ``if TYPE_CHECKING:``, so that importing
    the module does not import ``target``.
    """

    target: str
    line: int
    deferred: bool


def module_name(path: Path) -> str:
    """Name a source file by its place in the package: ``tiles.grid``, or ``""``."""
    parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_files() -> list[Path]:
    """Find the modules of the package."""
    return sorted((ROOT / PACKAGE).rglob("*.py"))


def covers(prefix: str, name: str) -> bool:
    """Tell whether ``name`` is ``prefix`` or lies in it; ``""`` covers everything."""
    return not prefix or name == prefix or name.startswith(prefix + ".")


def layer_of(name: str) -> str | None:
    """Find the longest entry of LAYERS that fits a module."""
    if not name:
        return ""
    fits = [layer for layer in LAYERS if layer and covers(layer, name)]
    return max(fits, key=len, default=None)


def defers(node: ast.AST) -> bool:
    """Tell whether the statements in a node do not run when its module is imported."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def find_imports(
    node: ast.AST, package: str, deferred: bool = False
) -> Iterator[Import]:
    """List the imports under a node; ``package`` resolves the relative ones."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, deferred)
    elif isinstance(node, ast.ImportFrom):
        relative_name = "." * node.level + (node.module or "")
        base = importlib.util.resolve_name(relative_name, package)
        for alias in node.names:
            yield Import(f"{base}.{alias.name}", node.lineno, deferred)
    for child in ast.iter_child_nodes(node):
        yield from find_imports(child, package, deferred or defers(node))


def imports_of(path: Path) -> list[Import]:
    """List the imports of a file."""
    name = module_name(path)
    parts = [PACKAGE, *name.split(".")] if name else [PACKAGE]
    package = ".".join(parts if path.stem == "__init__" else parts[:-1])
    return list(find_imports(ast.parse(path.read_text("utf-8")), package))


def our_module(target: str) -> str | None:
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


def relative(path: Path) -> str:
    """Name a file in a test's id and in a message."""
    return path.relative_to(ROOT).as_posix()


each_source = pytest.mark.parametrize("path", source_files(), ids=relative)


@each_source
def test_module_imports_only_from_layers_below(path):
    name = module_name(path)
    layer = layer_of(name)
    assert layer is not None, f"{name} is in no layer: add a line to LAYERS"
    allowed = LAYERS[layer]
    for found in imports_of(path):
        target = our_module(found.target)
        if target is None or (layer and covers(layer, target)):
            continue
        # The package itself sits on top of its parts: "" is allowed only by EVERYTHING.
        assert any(covers(prefix, target) for prefix in allowed), (
            f"{relative(path)}:{found.line} imports {found.target}, "
            f"but the layer {layer!r} may import only {allowed}"
        )


@each_source
def test_third_parties_stay_in_their_layers(path):
    name = module_name(path)
    for found in imports_of(path):
        top, inside = THIRD_PARTIES.get(
            found.target.split(".")[0], (ANYWHERE, ANYWHERE)
        )
        allowed = (*top, *inside) if found.deferred else top
        assert any(covers(prefix, name) for prefix in allowed), (
            f"{relative(path)}:{found.line} imports {found.target}: at the top of a "
            f"module only in {top}, inside functions also in {inside}"
        )


@each_source
def test_planning_is_pure(path):
    if layer_of(module_name(path)) not in PURE_LAYERS:
        return
    for found in imports_of(path):
        assert found.target.split(".")[0] not in IMPURE_THIRD_PARTIES, (
            f"{relative(path)}:{found.line} imports {found.target}; "
            f"the layers {PURE_LAYERS} know nothing of it"
        )


def test_table_names_only_layers():
    for layer, allowed in LAYERS.items():
        for prefix in allowed:
            assert prefix in LAYERS, f"{layer!r} may import {prefix!r}: no such layer"


@pytest.mark.parametrize(
    "path",
    [
        path
        for folder in (PACKAGE, "tests", "benchmarks")
        for suffix in ("*.py", "*.cu", "*.cuh")
        for path in sorted((ROOT / folder).rglob(suffix))
    ],
    ids=relative,
)
def test_file_has_one_subject(path):
    assert path.stem not in MEANINGLESS_NAMES, f"name {relative(path)} by its subject"
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= MAX_LINES, f"{relative(path)} has {lines} lines; split it"


def test_import_loads_no_engine_and_no_cluster():
    code = f"import sys, {PACKAGE}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert set(NOT_LOADED) & set(result.stdout.split()) == set()


# --- the rule's own tests: each sees what it should see -----------------------------


@pytest.mark.parametrize(
    ("source", "package", "expected"),
    [
        ("import cupy.cuda", "twom_dist", ("cupy.cuda", False)),
        ("def f():\n import cupy", "twom_dist", ("cupy", True)),
        ("from . import grid", "twom_dist.tiles", ("twom_dist.tiles.grid", False)),
        ("from ..plan import Plan", "twom_dist.tiles", ("twom_dist.plan.Plan", False)),
        ("if x:\n from a import b", "twom_dist", ("a.b", False)),
        ("if TYPE_CHECKING:\n import cupy", "twom_dist", ("cupy", True)),
        ("class K:\n def f(self):\n  from a import b", "twom_dist", ("a.b", True)),
    ],
)
def test_imports_are_found_and_resolved(source, package, expected):
    (found,) = find_imports(ast.parse(source), package)
    assert (found.target, found.deferred) == expected


def test_layer_is_the_longest_that_fits():
    assert layer_of("kernels.contract") == "kernels.contract"
    assert layer_of("kernels.cpu.gemm") == "kernels"
    assert layer_of("kernels_of_another_kind") is None
    assert layer_of("") == ""
