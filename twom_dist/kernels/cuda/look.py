"""The stages of the CUDA engine that look at operands; see `kernels.survey`."""

from collections.abc import Callable, Hashable, Sequence

from ...moduli import ScalingRule
from ...typing import Array
from ..survey import Summary, Surveyed, Weighed
from . import bounds, norms, stack_summary
from .launch import Device
from .scripts import Scripts
from .tuning import tuning_for
from .weigh import weigh


class CudaLook:
    """Launches of norms.cu and bounds.cu."""

    device: Device
    scripts: Scripts
    waits = True

    def variant(self) -> Hashable:
        """Return the current device, and how it is tuned."""
        device = self.device
        return device.number(), tuning_for(device.capability())

    def row_sums(
        self, x: Array, largest: Array, norm_bits: int, shifts: Array | None = None
    ) -> tuple[Array, Array]:
        """Sum squares and magnitudes of each row."""
        return norms.row_sums(self.device, x, largest, norm_bits, shifts)

    def error_sums(
        self, x: Array, exponents: Array, bits: int, shifts: Array | None = None
    ) -> Array:
        """Sum the squares of what `encode` rounds away."""
        return norms.error_sums(self.device, x, exponents, bits, shifts)

    def survey(
        self,
        operands: Sequence[Array],
        norm_bits: int,
        *,
        totals: bool,
        columns: bool,
        shifts: Sequence[Array] | None = None,
    ) -> list[Surveyed]:
        """Find all of these in two launches."""
        given = operands, norm_bits, totals, columns, shifts or ()
        return norms.survey(self.device, *given)

    def weigh(
        self,
        operands: Sequence[Array],
        norm_bits: int,
        *,
        columns: bool,
        rule: ScalingRule | None,
        meanwhile: Callable[[], object] | None = None,
    ) -> Weighed:
        """Find the numbers that decide by five launches and one wait."""
        given = operands, norm_bits, columns, rule, meanwhile
        return weigh(self.device, self.scripts, self.variant(), *given)

    def summarise(self, found: Sequence[Surveyed], k: int) -> Summary:
        """Find the numbers of all matrices by one launch and one wait."""
        return stack_summary.summarise(self.device, found, k)

    def largest_errors(
        self,
        operands: Sequence[Array],
        exponents: Sequence[Array],
        bits: int,
        places: Array,
    ) -> Array:
        """Sum the errors of each operand by a launch; one wait for all matrices."""
        given = operands, exponents, bits, places
        return stack_summary.largest_errors(self.device, *given)

    def fetch(self, arrays: Sequence[Array]) -> list[Array]:
        """Copy arrays of one allocation to the host, and wait for them."""
        return self.device.fetch(arrays)

    def octaves(self, x: Array, largest: Array, shifts: Array | None = None) -> Array:
        """Find the octaves of entries below the largest of their rows."""
        return norms.octaves(self.device, x, largest, shifts)

    def count_octaves(self, x: Array) -> Array:
        """Count the entries of each row down to some octaves."""
        return bounds.count_octaves(self.device, x)

    def multiply_octaves(self, x: Array, y: Array) -> Array:
        """Find the least sum of octaves of each pair of rows."""
        return bounds.multiply_octaves(self.device, x, y)
