"""What products cost, in numbers that do not depend on the machine: as recorded."""

import pytest

from tests.counts import assert_as_recorded, count_calls, count_graphs, count_plans


@pytest.mark.parametrize("count", [count_plans, count_graphs, count_calls])
def test_products_cost_what_is_recorded(count):
    assert_as_recorded(count())
