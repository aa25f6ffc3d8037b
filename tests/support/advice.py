"""Plans of square products for workers with little memory, and what refusals advise."""

import re

import twom_dist as td
from tests.support.expect import raises
from twom_dist.errors import MemoryLimitError
from twom_dist.plan.cluster import MemoryBudget

MIB = 2**20
SIDE = 3000


def plan(routine, memory, **options):
    """Plan a product in tiles of 500 by two workers of so many bytes."""
    count = 1 if routine in (td.herk, td.syrk) else 2
    sizes = {"chunks": 500, "n_workers": 2, "memory_limit": memory}
    return td.plan(routine, *[(SIDE, SIDE)] * count, **sizes, **options)


def memory_for(tile_bytes, kind="product"):
    """Return the memory of workers or a machine that leaves so much for tiles."""
    return MemoryBudget(kind=kind).least_limit(tile_bytes)


def room(memory):
    return MemoryBudget(memory).tile_bytes


def advised(routine, memory, **options):
    """Read the bytes that the refusal of so much memory names."""
    with raises(MemoryLimitError, "memory") as caught:
        plan(routine, memory, **options)
    return int(re.search(r"(\d+) MiB", caught.value.remedy)[1]) * MIB
