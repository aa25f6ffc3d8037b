"""Moduli, roots of -1, CRT weights, residue systems, scaling, in exact integers."""

from .crt import symmetric_residue
from .kinds import Mirror
from .scaling import (
    NAN_ROW,
    NONFINITE_ROW,
    ZERO_ROW,
    ScalingRule,
    norm_bits,
    scaling_rule,
    smallest_num_moduli,
)
from .system import (
    METHODS,
    PlaneProduct,
    ResidueSystem,
    available_moduli,
    combined_weights,
    make_system,
    residue_system,
    samples_system,
)
