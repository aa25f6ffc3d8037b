"""How many functions a small product passes before the engine: they are few, and held.

A process of its own, since what others have cached would not be passed again.
"""

import json
import subprocess
import sys

from tests.support.places import ROOT

SCRIPT = """
import json, os, sys
import numpy as np
import twom_dist as td

ours = os.path.dirname(td.__file__)

def passed(*arrays, **options):
    found = set()

    def see(frame, event, _):
        code = frame.f_code
        # Comprehensions are frames of their own before Python 3.12.
        named = code.co_name == "<lambda>" or not code.co_name.startswith("<")
        if event == "call" and named and code.co_filename.startswith(ours):
            found.add((code.co_filename.removeprefix(ours), code.co_qualname))

    sys.setprofile(see)
    td.gemm(*arrays, **options)
    sys.setprofile(None)
    return sum("/kernels/" not in name for name, _ in found)

def random(*shape, seed=0):
    parts = np.random.default_rng(seed).standard_normal((2, *shape))
    return parts[0] + 1j * parts[1]

a, b, stack = random(64, 64), random(64, 64, seed=1), random(4, 64, 64)
for x in (random(32, 32), random(2, 32, 32)):
    td.gemm(x, x)
print(json.dumps({
    "gemm": passed(a, b),
    "gemm again": passed(a, b),
    "gemm of given moduli again": [passed(a, b, num_moduli=16) for _ in "12"][1],
    "stack again": [passed(stack, stack) for _ in "12"][1],
}))
"""


def test_a_small_product_passes_few_functions_of_ours():
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    recorded = json.loads((ROOT / "tests/data/ways.json").read_text())
    assert {name: min(found[name], n) for name, n in recorded.items()} == found
