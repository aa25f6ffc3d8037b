"""What products cost, in numbers that do not depend on the machine: as recorded."""

import pytest

from tests.support.counts import (
    assert_as_recorded,
    count_calls,
    count_graphs,
    count_host_calls,
    count_plans,
    count_triangles,
    find_changes,
    read,
)


@pytest.mark.parametrize(
    "count",
    [count_plans, count_graphs, count_triangles, count_calls, count_host_calls],
)
def test_products_cost_what_is_recorded(count):
    assert_as_recorded(count())


def test_calls_are_bounded_and_all_else_is_compared():
    name, launches = "calls of gemm of 16 x 16", "launches of gemm, sm_90"
    recorded = read()
    assert not find_changes({name: {"calls": 0}, launches: recorded[launches]})
    changed = {
        name: {"calls": 2 * recorded[name]["calls"]},
        launches: recorded[launches] | {"fill": 99},
        "calls of nothing recorded": {"calls": 0},
    }
    assert find_changes(changed).keys() == changed.keys()
