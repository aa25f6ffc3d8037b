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
    """Launches of norms.cu and bounds.cu, and int8 products of magnitudes."""

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

    def magnitudes(
        self, x: Array, largest: Array, shifts: Array | None = None
    ) -> Array:
        """Round the magnitudes of entries, relative to their rows, to 8 bits."""
        return norms.magnitudes(self.device, x, largest, shifts)

    def multiply_digits(self, x: Array, y: Array, digits: int) -> Array:
        """Multiply leading digits by cuBLAS: integers, exact whatever it is set to."""
        return bounds.multiply_digits(self.device, x, y, digits)

    def find_open(
        self, products: Array, left: Array, right: Array, factor: float, most: int
    ) -> tuple[Array, Array, Array] | None:
        """Count pairs and list the first ones by one launch; fetch both by one wait."""
        return bounds.find_open(self.device, products, left, right, factor, most)

    def bound_pairs(
        self, x: Array, y: Array, rows: Array, columns: Array, bits: int
    ) -> tuple[Array, Array]:
        """Sum products, and find the largest term, of each pair."""
        return bounds.bound_pairs(self.device, x, y, rows, columns, bits)

    def smallest_cosines(
        self,
        x: Array,
        y: Array,
        of_x: tuple[Array, Array],
        of_y: tuple[Array, Array],
        bits: int,
        places: Array,
    ) -> Array:
        """Sum products of magnitudes in single precision, by one kernel."""
        return bounds.smallest_cosines(self.device, x, y, of_x, of_y, bits, places)
