"""What products cost, in numbers that do not depend on the machine: as recorded."""

import pytest

from tests.support import counts


@pytest.mark.parametrize(
    "kind", ["plans", "graphs", "triangles", "calls", "host_calls"]
)
def test_products_cost_what_is_recorded(kind):
    counts.assert_as_recorded(getattr(counts, f"count_{kind}")())


def test_calls_are_bounded_and_all_else_is_compared():
    name, launches = "calls of gemm of 16 x 16", "launches of gemm, sm_90"
    recorded = counts.read()
    kept = {name: {"calls": 0}, launches: recorded[launches]}
    assert not counts.find_changes(kept)
    changed = {
        name: {"calls": 2 * recorded[name]["calls"]},
        launches: recorded[launches] | {"fill": 99},
        "calls of nothing recorded": {"calls": 0},
    }
    assert counts.find_changes(changed).keys() == changed.keys()
