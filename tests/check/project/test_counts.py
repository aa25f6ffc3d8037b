"""What products cost, in numbers that do not depend on the machine: as recorded."""

import pytest

from tests.support import counts

KINDS = ["plans", "graphs", "triangles", "calls", "host_calls"]


@pytest.mark.parametrize("kind", KINDS)
def test_products_cost_what_is_recorded(kind):
    counts.assert_as_recorded(getattr(counts, f"count_{kind}")())
