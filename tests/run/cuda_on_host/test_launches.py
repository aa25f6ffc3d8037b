"""The launches of products on two kinds of device: as recorded."""

from tests.support.counts import assert_as_recorded, count_launches


def test_products_take_the_launches_that_are_recorded(cuda):
    assert_as_recorded(count_launches(cuda.device, cuda.device.capability()))
