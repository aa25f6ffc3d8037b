"""The launches of products on each kind of device: as recorded."""

from tests.support.counts import assert_as_recorded, count_launches
from tests.support.cuda.host_device import EVERY_WAY


@EVERY_WAY
def test_products_take_the_launches_that_are_recorded(cuda):
    assert_as_recorded(count_launches(cuda.device, cuda.device.capability()))
