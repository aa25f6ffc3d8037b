"""What is declared, in pyproject.toml and beside it, against what is imported."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import twom_dist as td
from tests.support.cases import cases
from tests.support.places import ROOT
from tests.support.sources import find_files, nodes

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Of GPUs: not installed here, or under names that hold the version of CUDA.
OF_GPUS = {
    "cuda": "cuda-tile",
    "cupy": "cupy-cuda{}x",
    "cupyx": "cupy-cuda{}x",
    "dask_cuda": "dask-cuda",
    "pynvml": "nvidia-ml-py",
    "rmm": "rmm-cu{}",
}


def read_yaml(name):
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


@cache
def imported():
    """List what is imported, wherever the statement stands, and is not Python's."""
    names = set()
    # Newcomers run the demo with the package alone.
    demo = "benchmarks/demo.py", "benchmarks/harness.py"
    for path in find_files("twom_dist/**/*.py", "cluster/**/*.py", *demo).values():
        for node in nodes(path):
            if isinstance(node, ast.Import):
                names.update(x.name.partition(".")[0] for x in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module.partition(".")[0])
    return names - {"twom_dist", "benchmarks", *sys.stdlib_module_names}


def declare(*extras):
    """List the packages that the project installs, with some of its extras."""
    asked = [*PROJECT["dependencies"], *(x for name in extras for x in EXTRAS[name])]
    return {canonicalize_name(Requirement(x).name) for x in asked}


@cases("cuda", ["12", "13"])
def test_what_the_package_imports_is_declared(cuda):
    declared, installed = declare(f"cuda{cuda}", "tiles"), packages_distributions()
    for name in imported():
        packages = [OF_GPUS[name]] if name in OF_GPUS else installed[name]
        given = {canonicalize_name(x.format(cuda)) for x in packages}
        assert given & declared, name


def test_what_is_declared_has_a_lower_bound_and_no_other():
    extras = ("cloud", "jobqueue", "xarray")
    for text in [*PROJECT["dependencies"], *(x for y in extras for x in EXTRAS[y])]:
        operators = [x.operator for x in Requirement(text).specifier]
        assert operators == [">="], text


def test_the_conda_recipe_asks_for_the_same():
    recipe = read_yaml("recipe/recipe.yaml")
    # dask[array] is dask-core and NumPy there, and a package for every machine has
    # no dependencies of some.
    wanted = {
        re.sub("^dask$", "dask-core", x.name): str(x.specifier)
        for x in map(Requirement, PROJECT["dependencies"])
        if x.marker is None
    }
    wanted["python"] = ">=${{ python_min }}"
    run = (x.partition(" ") for x in recipe["requirements"]["run"])
    assert {name: bound for name, _, bound in run if name != "__linux"} == wanted
    context, about = recipe["context"], recipe["about"]
    assert (context["name"], context["version"]) == (PROJECT["name"], td.__version__)
    assert ">=" + context["python_min"] == PROJECT["requires-python"]
    assert (about["license"], about["summary"]) == (
        PROJECT["license"],
        PROJECT["description"],
    )
    scripts = [" = ".join(x) for x in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts


def test_the_citation_is_that_of_this_release_and_there_is_one_address():
    citation, home = read_yaml("CITATION.cff"), PROJECT["urls"]["Homepage"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    first, *_ = re.findall(r"^## \[([\d.]+)\] - (.+)$", changes, re.MULTILINE)
    assert (citation["version"], str(citation["date-released"])) == first
    assert first[0] == td.__version__
    for name in ("license", "authors"):
        assert citation[name] == PROJECT[name]
    links = read_yaml(".github/ISSUE_TEMPLATE/config.yml")["contact_links"]
    urls = [*PROJECT["urls"].values(), *(x["url"] for x in links)]
    assert all(x.startswith(home) for x in urls)
    recipe = read_yaml("recipe/recipe.yaml")["about"]["homepage"]
    assert citation["repository-code"] == recipe == home


def test_actions_are_pinned_and_jobs_are_limited():
    paths = [*(ROOT / ".github" / "workflows").glob("*.yml")]
    assert paths
    for path in paths:
        text = path.read_text("utf-8")
        uses = re.findall(r"\buses: (.*)", text)
        assert uses
        for action in uses:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
        found = yaml.safe_load(text)
        assert found["permissions"] == {"contents": "read"}
        assert found["concurrency"]
        assert all(0 < job["timeout-minutes"] <= 300 for job in found["jobs"].values())


def test_the_oldest_and_the_newest_python_are_tried_on_both_families_of_cpus():
    found = read_yaml(".github/workflows/ci.yml")
    matrix = found["jobs"]["check"]["strategy"]["matrix"]
    known = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert matrix["python"] == [known[0], known[-1]]
    assert [name.endswith("-arm") for name in matrix["os"]] == [False, True]
