"""What Arm's CPUs take for a step of the int8 products, which LLVM compiles anywhere.

It is the budget of the loops, by instructions: none of these CPUs was timed.
"""

import re
from collections import Counter

import pytest

from tests.support.arm import compile_for, linux_on

# Of 4 rows by 24 columns, 4 neighbours along k of each, or 8: vectors that are loaded,
# what joins neighbours, and products. 24 sums stay in the 32 registers.
BUDGETS = {
    "neoverse-n1": ({"dotprod"}, {"loads": 10, "joins": 0, "sdot": 24}),
    "neoverse-v2": ({"dotprod", "i8mm"}, {"loads": 14, "joins": 14, "smmla": 24}),
}
KINDS = {
    **{"ldp": ("loads", 2), "ldr": ("loads", 1), "ld1r": ("loads", 1)},
    **{"zip1": ("joins", 1), "zip2": ("joins", 1)},
}
VECTOR = re.compile(r"\t([a-z]\w+)\t(?=.*\b[vq]\d+\b)")


def find_loops(text):
    """Yield the instructions on vectors of each block that jumps back to itself."""
    blocks = re.split(r"^(\.L\w+):.*$", text, flags=re.M)
    for label, body in zip(blocks[1::2], blocks[2::2], strict=True):
        if re.search(rf"\tb\S*\s.*{re.escape(label)}$", body, flags=re.M):
            taken = Counter()
            for name in VECTOR.findall(body):
                kind, count = KINDS.get(name, (name, 1))
                taken[kind] += count
            yield taken, "sp" in body


@pytest.mark.parametrize("cpu", BUDGETS)
def test_steps_take_no_more_than_their_budget(cpu):
    features, budget = BUDGETS[cpu]
    product = "smmla" if "i8mm" in features else "sdot"
    found = [*find_loops(compile_for(cpu, frozenset(features)))]
    assert len(found) >= 4  # four times 4 rows by 24 columns
    for taken, spills in found:
        assert all(taken[x] <= budget.get(x, 0) for x in taken), taken
        assert taken[product] == budget[product]
        assert not spills


@pytest.mark.parametrize(
    ("cpu", "granted", "found"),
    [
        ("neoverse-v2", ~0, {"dotprod", "i8mm"}),
        ("neoverse-v2", 1 << 20, {"dotprod"}),
        ("neoverse-n1", ~0, {"dotprod"}),
        ("neoverse-n1", 0, set()),
        ("generic", ~0, set()),  # LLVM could not select them
    ],
)
def test_products_of_bytes_are_taken_where_linux_and_llvm_know_them(
    cpu, granted, found
):
    with linux_on(cpu, granted) as find_features:
        assert find_features() - {"neon"} == found
