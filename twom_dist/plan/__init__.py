"""Plans: the cost of a product, known and printable beforehand."""

from .chunks import (
    LARGEST_TILE,
    SMALLEST_TILE,
    TILES_PER_WORKER,
    cut_evenly,
    find_chunks,
    tile_sizes,
)
from .cluster import Cluster
from .planner import check_fit, make_plan, share_look
from .record import Plan
from .tiling import Layout, Wave, lay_out
