"""The Engine protocol: what each kernel takes, returns and may assume.

Both operands of a product enter as *rows x k* views: ``op(A)`` itself and
``op(B)^T``, so that ``C = X Y^T`` with X (m x k) and Y (n x k). Scaling, encoding
and masking then always run along rows, and a rank-k update passes one matrix twice.

Every engine gives the same integers in every stage but `multiply`'s intermediate
sums, and the same bits out of `decode`; `tests/check/kernels` runs over each of them.

References
----------
.. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices".
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from typing import Any, Protocol

from ..moduli import ResidueSystem, ScalingRule
from ..typing import Array, Uplo
from .analysis import Analyses
from .family import Family
from .limits import Shape, TileLimits, Update


class Encoded(Protocol):
    """The int8 planes of an operand tile, or a stack, in a layout of the engine."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., rows, k)."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def reorder(self, planes: tuple[int, ...]) -> "Encoded":
        """Take planes[l] for plane l, without a copy: of X, those of its conjugate."""


class Fill(Protocol):
    """The entries of a tile of C that a NaN or an Inf of A or B reaches."""

    def plus(self, other: Any) -> Any:
        """Add the fill of another panel along k."""


class Defaults(Protocol):
    """Part of `Engine` that holds unless an engine, with a device, says otherwise."""

    # Whether the host waits for answers, so that one wait is worth more stages.
    waits: bool = False
    # Whether `out` may be a part of a larger array, whose rows lie apart.
    writes_parts: bool = True
    # Whether `gemm_fused` takes the places of matrices in stacks.
    takes_places: bool = False

    def task(self) -> AbstractContextManager[Any]:
        """Scope of one dask task: its share of threads; device work done on exit."""
        return nullcontext()

    def publish(self, encoded: Encoded) -> Encoded:
        """Return an encoded tile that other threads may take from here on."""
        return encoded

    def retain(self, encoded: Encoded) -> Encoded:
        """Wait for a tile of another stream, and keep it alive until this task ends."""
        return encoded

    def variant(self) -> Hashable:
        """Return a hashable id of the device: tile limits may differ between them."""
        return None

    def run_stack(
        self,
        compute: Callable[[slice], object],
        count: int,
        system: ResidueSystem,
        shape: Shape,
    ) -> None:
        """Call `compute` for pieces of a stack of matrices, in turn or side by side."""
        compute(slice(0, count))

    def fingerprint(self, x: Array) -> int:
        """Return a number that changes, as good as certainly, when x is refilled."""
        return int.from_bytes(blake2b(x.tobytes(), digest_size=8).digest())


class Engine(Analyses, Defaults, Protocol):
    """One implementation of the pipeline; stateless apart from caches and threads.

    Arrays are of the engine's family (NumPy, CuPy) and never written to, except
    where a parameter says so.

    The stages of a product take *stacks* too: matrices of one shape along axes in
    front, the same for all operands. Then x is (..., rows, k), exponents are (...,
    rows), residues (products, ..., m, n or more), and a result is (..., m, n), each
    matrix bit for bit what it is alone. `multiply_octaves`, `add_residues` and
    `fingerprint` take one matrix.

    Stages that take `shifts` read column l as ``x[:, l] 2^shifts[l]``: the parts are
    multiplied as they are loaded, and the stage gives the bits that it gives for a
    matrix that was multiplied before, since the products are exact in x's own format:

    * The factors are normal numbers: ``|shifts| <= 1016`` in double, 120 in single.
    * The caller sees to it that what is not 0, NaN or Inf becomes a normal number, or
      grows from a subnormal one; ``x 2^e`` has the significant bits of x, and so is
      a number of the format.
    * Zeros, NaN and Inf stay what they are, with their signs: rows without a nonzero
      entry are told as before, and rows that are not finite, too.
    * Rows that hold a NaN or an Inf, here or in another tile, may overflow or
      underflow. They are masked by then: their exponent is `NONFINITE_ROW` or
      `NAN_ROW`, which are the largest of all tiles', their sums and planes are 0, and
      `find_nonfinite` reads the signs of x alone, which positive factors do not change.
    """

    name: str
    family: Family

    def tile_limits(
        self, system: ResidueSystem, shape: Shape, update: Update | None = None
    ) -> TileLimits:
        """Choose the largest tiles of a product, or update, of arrays in memory."""

    def choose_exponents(
        self, largest: Array, squares: Array, rule: ScalingRule
    ) -> Array:
        """Apply ``rule.exponent`` to each row: (rows,) int32."""

    def encode(
        self,
        x: Array,
        exponents: Array,
        system: ResidueSystem,
        *,
        conjugate: bool = False,
        shifts: Array | None = None,
    ) -> Encoded:
        """Quantise ``x' = rint(x 2^s)`` (ties to even) and take its planes modulo p.

        Rows with exponent `NONFINITE_ROW` or `NAN_ROW` become zero.

        Hexagonal systems are the reference engine's alone: `reference.rounding`.
        """

    def multiply(
        self,
        left: Encoded,
        right: Encoded,
        system: ResidueSystem,
        before: Array | None = None,
        *,
        overwrite: bool = False,
        hermitian: bool = False,
        triangle: Uplo = "full",
    ) -> Array:
        """Multiply the planes of every product, add what was there, reduce modulo p.

        Returns (products, m, n or more) int8: symmetric residues, and what an engine
        pads their rows with; a new array, or `before` itself if that is overwritten, or
        nothing is added (k is 0).

        before
            Residues of earlier panels along k, as this or `add_residues` returned them.
        overwrite
            Whether the sums take the place of `before`, for which only its owner may
            ask. Otherwise it is read, and never written to.
        hermitian
            Whether the right operand holds the conjugates of the left one's rows: a
            product with a `mirror` then follows from others, and is not multiplied.
        triangle
            What will be decoded of a square tile. Outside of it the residues may hold
            anything: only this engine may add to them, for this triangle.
        """

    def add_residues(self, x: Array, y: Array, system: ResidueSystem) -> Array:
        """Add the residues of two parts along k, of one shape, into a new array."""

    def find_nonfinite(
        self,
        x: Array,
        y: Array,
        rows: Array,
        columns: Array,
        conjugate: tuple[bool, bool],
    ) -> Fill | None:
        """Compute the fill of one tile product, or None where all is known finite.

        A row or column with a NaN is NaN in both parts, whatever it meets: its exponent
        says so, and no entry is read. Terms of finite entries do not count. `rows`,
        `columns`: scaling exponents of the whole rows; `conjugate`: whether X, and Y,
        are conjugated.
        """

    def apply_nonfinite(
        self, fill: Any, out: Array, alpha: complex, beta: complex, c: Array | None
    ) -> None:
        """Overwrite affected entries of ``alpha X Y^T + beta c``, as `decode` does."""

    def scale_and_add(
        self,
        x: Array | None,
        alpha: complex,
        beta: complex,
        c: Array | None,
        dtype: Any,
    ) -> Array:
        """Return alpha x + beta c, new, as `decode` does; x is None without a product.

        In double, rounded once, without fused operations. Scalars of 1 multiply
        nothing, real ones act on each part, and a matrix times 0 is not read.
        """

    def mirror_tile(
        self, tile: Array, *, conjugate: bool, out: Array | None = None
    ) -> Array:
        """Conjugate-transpose, by ``0 - im``, or transpose: into `out` as `decode`."""

    def symmetrise_diagonal_tile(
        self, tile: Array, *, conjugate: bool, uplo: Uplo
    ) -> Array:
        """Mirror the computed triangle of a diagonal tile, or clear the other one.

        The diagonal of a Hermitian tile is real. The tile is changed, and returned.
        """

    def decode(
        self,
        residues: Array,
        rows: Array,
        columns: Array,
        system: ResidueSystem,
        dtype: Any,
        *,
        alpha: complex = 1,
        beta: complex = 0,
        c: Array | None = None,
        triangle: Uplo = "full",
        components: int = 1,
        out: Array | None = None,
    ) -> Array:
        """Reconstruct ``alpha X Y^T + beta c`` as a new C-contiguous (m, n) array.

        Or into `out`, which none of the others overlaps: such an array, or on the host
        a part of one along m and n. Of a square tile that `symmetrise_diagonal_tile`
        takes next, the `triangle` alone need be right: what lies outside it may hold
        anything. With 2 components, which take alpha 1 and beta 0, an
        array (2, m, n): the numbers and what their rounding left.

        In float64, per part, with d the exact digit sums of
        ``sum_q weight[q] residue[q]``, least significant first, b digit bits, T digits:

        1. ``q = rint(d[T-1] (2^((T-1)b)/M) + d[T-2] (2^((T-2)b)/M))``, each factor
           rounded once, no fused operation (or of any estimate that is off by less than
           2^-20: what decodes has the same q); ``d[t] -= q M[t]`` (exact);
        2. carry from the least digit up: ``u = floor((d[t] + 2^(b-1)) 2^-b)``,
           ``d[t] -= u 2^b``, ``d[t+1] += u`` (exact): the balanced digits;
        3. ``v = d[0]``, then ``v = (d[t] 2^(tb)) + v``: within one ulp, and exact
           where the value fits 53 bits. A negative integer takes the digits of its
           magnitude, negated, so that decoding is odd: they differ only where a
           digit is ``-2^(b-1)``. With 2 components each sum ``v' = x + v``, x the
           digit's term, leaves ``v - (v' - x)``, exactly. What all leave is summed from
           the first on, to the low component l;
        4. ``(v 2^e1) 2^e2`` with ``e1 = clamp(e, -1000, 600)`` and
           ``e2 = max(e - e1, -1022)`` for ``e = -(rows[i] + columns[j])``,
           those of rows that are not finite 0: only the second product may round.
           Where e2 is positive it comes after alpha, which may prevent an overflow.
           l likewise; then ``v' = v + l``, ``l -= v' - v``, and l is 0 where v'
           overflows;
        5. times alpha (skipped where it is 1; by parts where it is real; otherwise
           ``ar x - ai y``, ``ar y + ai x`` without fused operations), then plus
           ``beta c``, formed likewise (c is not read where beta is 0);
        6. rounded to the precision of `dtype`, zeros made positive and every NaN made
           `numpy.nan`.
        """
