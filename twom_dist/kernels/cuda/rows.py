"""The stages of the CUDA engine that look at operands; see `kernels.analysis`."""

from collections.abc import Callable, Collection, Hashable, Sequence

from ...moduli import ScalingRule
from ...typing import Array
from ..statistics import Ask, RowStatistics
from . import norms, octaves
from .analysis import CudaAnalysis, analyse
from .launch import Device
from .scripts import Scripts
from .tuning import tuning_for


class CudaRows:
    """Launches of norms.cu, analysis.cu and octaves.cu."""

    device: Device
    scripts: Scripts
    waits = True

    def variant(self) -> Hashable:
        """Return the current device, and how it is tuned."""
        device = self.device
        return device.number(), tuning_for(device.capability())

    def measure(
        self,
        x: Array,
        norm_bits: int,
        asks: Collection[Ask] = (),
        *,
        largest: Array | None = None,
        shifts: Array | None = None,
    ) -> RowStatistics:
        """Find what is asked for in two launches, or one."""
        return norms.measure(self.device, x, norm_bits, asks, largest, shifts)

    def analyse(
        self,
        operands: Sequence[Array],
        norm_bits: int,
        *,
        columns: bool,
        rule: ScalingRule | None,
        octaves: bool = False,
        shifts: Sequence[Array] | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> CudaAnalysis:
        """Find the numbers that decide by three launches and one wait."""
        given = operands, norm_bits, columns, rule, octaves, shifts, meanwhile
        return analyse(self.device, self.scripts, self.variant(), *given)

    def choose_exponents(
        self, largest: Array, squares: Array, rule: ScalingRule
    ) -> Array:
        """Apply the rule to each row."""
        return norms.choose_exponents(self.device, largest, squares, rule)

    def error_sums(
        self, x: Array, exponents: Array, bits: int, shifts: Array | None = None
    ) -> Array:
        """Sum the squares of what `encode` rounds away."""
        return norms.error_sums(self.device, x, exponents, bits, shifts)

    def octaves(self, x: Array, largest: Array, shifts: Array | None = None) -> Array:
        """Find the octaves of entries below the largest of their rows."""
        return norms.octaves(self.device, x, largest, shifts)

    def multiply_octaves(self, x: Array, y: Array) -> Array:
        """Find the least sum of octaves of each pair of rows."""
        return octaves.multiply_octaves(self.device, x, y)
