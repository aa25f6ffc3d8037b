"""The weight of each room, which grows on purpose alone.

`tests/data/weight.json` has the most lines of each room of the package, the tests and
the benchmarks. A commit that raises one says what the lines are for, and what they
replace. ``python -m tests.check.project.test_weight`` records what there is.
"""

import ast
import json

from tests.support.places import ROOT
from tests.support.sources import find_files, package, read

WEIGHT = ROOT / "tests" / "data" / "weight.json"
KINDS = ("py", "cu", "cuh")
# Tuples that are made to be unpacked into a call some lines below: name the arguments.
# Kernels apart, whose arguments are as many as those of the BLAS.
MOST_UNPACKED = 3


def rooms():
    found = {}
    for top in ("twom_dist", "tests", "benchmarks"):
        for name, path in find_files(*(f"{top}/**/*.{kind}" for kind in KINDS)).items():
            inside = name.split("/")[1:-1]
            room = "/".join([top, *inside[:1]]) if top != "benchmarks" else top
            found[room] = found.get(room, 0) + len(read(path).splitlines())
    return dict(sorted(found.items()))


def test_rooms_weigh_no_more_than_recorded():
    most = json.loads(WEIGHT.read_text())
    assert {x: n for x, n in rooms().items() if n > most.get(x, 0)} == {}


def unpacked():
    """Calls of a function's own tuples, unpacked: ``f(*given)``."""
    for path, found in package():
        for node in found:
            if path.parts[0] == "kernels" or not isinstance(node, ast.FunctionDef):
                continue
            inside = [*ast.walk(node)]
            made = {
                target.id
                for x in inside
                if isinstance(x, ast.Assign) and isinstance(x.value, ast.Tuple)
                for target in x.targets
                if isinstance(target, ast.Name)
            }
            for x in inside:
                if isinstance(x, ast.Call):
                    for y in x.args:
                        if (
                            isinstance(y, ast.Starred)
                            and getattr(y.value, "id", "") in made
                        ):
                            yield f"{path}:{y.lineno} *{y.value.id}"


def test_arguments_are_named_where_they_are_handed_over():
    found = sorted(set(unpacked()))
    assert len(found) <= MOST_UNPACKED, found


if __name__ == "__main__":
    WEIGHT.write_text(json.dumps(rooms(), indent=1) + "\n")
