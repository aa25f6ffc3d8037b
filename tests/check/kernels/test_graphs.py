"""Products that are to be captured: what cannot be, and the host, which captures none.

That replays compute what calls do is seen on a device.
"""

import numpy as np

import twom_dist as td
from tests.support.cases import cases
from tests.support.expect import raises
from twom_dist.errors import PlanError


@cases("options", [{}, {"num_moduli": 8, "equilibrate": True}])
def test_products_say_what_cannot_be_captured(options):
    with raises(PlanError, "graph"):
        td.Product((4, 4), (4, 4), graph=True, **options)


def test_on_the_host_there_is_nothing_to_capture():
    product, out = td.Product((4, 4), (4, 4), graph=True, num_moduli=8), np.eye(4) + 0j
    for _ in range(3):
        assert product(2 * np.eye(4) + 0j, np.eye(4) + 0j, out=out) is out
        assert (out == 2 * np.eye(4)).all()
