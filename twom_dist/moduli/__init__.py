"""Exact integers only: moduli, roots of -1, CRT weights, residue systems, scaling."""

from .combinations import combined_weights, form_of
from .crt import balanced_digits, crt_weights, reconstruct, symmetric_residue
from .kinds import Mirror, Plane
from .roots import root_of_minus_one, root_of_unity_cube
from .scaling import (
    NAN_ROW,
    NONFINITE_ROW,
    ZERO_ROW,
    ScalingRule,
    norm_bits,
    scaling_rule,
    smallest_num_moduli,
)
from .selection import (
    eisenstein_moduli,
    hybrid_moduli,
    log2_product,
    real_moduli,
    two_m_moduli,
)
from .system import (
    METHODS,
    PlaneProduct,
    ResidueSystem,
    available_moduli,
    first_system,
    make_system,
    residue_system,
    shortest_system,
)

__all__ = [
    "METHODS",
    "NAN_ROW",
    "NONFINITE_ROW",
    "ZERO_ROW",
    "Mirror",
    "Plane",
    "PlaneProduct",
    "ResidueSystem",
    "ScalingRule",
    "available_moduli",
    "balanced_digits",
    "combined_weights",
    "crt_weights",
    "eisenstein_moduli",
    "first_system",
    "form_of",
    "hybrid_moduli",
    "log2_product",
    "make_system",
    "norm_bits",
    "real_moduli",
    "reconstruct",
    "residue_system",
    "root_of_minus_one",
    "root_of_unity_cube",
    "scaling_rule",
    "shortest_system",
    "smallest_num_moduli",
    "symmetric_residue",
    "two_m_moduli",
]
