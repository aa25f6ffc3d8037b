"""Plans: what a product or an update will cost, known and printable beforehand."""

from .chunks import LARGEST_TILE, SMALLEST_TILE, TILES_PER_WORKER
from .cluster import Cluster, fit_cache, fit_panels
from .gemm import make_plan, plan_gemm
from .rank_k import make_update_plan, plan_her2k, plan_herk, plan_syr2k, plan_syrk
from .record import Plan

__all__ = [
    "LARGEST_TILE",
    "SMALLEST_TILE",
    "TILES_PER_WORKER",
    "Cluster",
    "Plan",
    "fit_cache",
    "fit_panels",
    "make_plan",
    "make_update_plan",
    "plan_gemm",
    "plan_her2k",
    "plan_herk",
    "plan_syr2k",
    "plan_syrk",
]
