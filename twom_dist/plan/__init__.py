"""Plans: what a product or an update will cost, known and printable beforehand."""

from .chunks import (
    LARGEST_TILE,
    SMALLEST_TILE,
    TILES_PER_WORKER,
    cut_evenly,
    tile_sizes,
)
from .cluster import Cluster
from .cost import Cost, add_costs
from .layout import Layout, find_chunks, lay_out
from .plan import Plan
from .planner import make_plan
from .waves import Wave

__all__ = [
    "LARGEST_TILE",
    "SMALLEST_TILE",
    "TILES_PER_WORKER",
    "Cluster",
    "Cost",
    "Layout",
    "Plan",
    "Wave",
    "add_costs",
    "cut_evenly",
    "find_chunks",
    "lay_out",
    "make_plan",
    "tile_sizes",
]
