"""The pipeline in exact Python integers: what every other engine must equal."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...moduli import NONFINITE_ROW, ResidueSystem, symmetric_residue
from ...typing import Array, Uplo
from ..family import Family
from ..finish import (
    make_canonical,
    mirror_tile,
    scale_and_add,
    symmetrise_diagonal_tile,
)
from ..limits import Shape, TileLimits, Update, host_limits
from ..nonfinite import apply_nonfinite, find_nonfinite
from ..protocol import Defaults
from .rounding import quantise, shift_columns
from .rows import (
    analyse,
    choose_exponents,
    error_sums,
    measure,
    multiply_octaves,
    octaves,
    parts_of,
)


@dataclass(frozen=True)
class ReferenceEncoded:
    """Symmetric residues as (planes, ..., rows, k) int8."""

    planes: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.planes.shape[1:])

    @property
    def nbytes(self) -> int:
        return int(self.planes.nbytes)

    def reorder(self, planes: tuple[int, ...]) -> "ReferenceEncoded":
        return ReferenceEncoded(self.planes[list(planes)])


_QUANTISE: Any = np.frompyfunc(quantise, 2, 1)


def _planes_of_samples(x: Array, system: ResidueSystem, conjugate: bool) -> Array:
    """Return (planes, ..., rows, k) int16, which holds -(-128) and uint8."""
    pairs = x.dtype.names is not None
    parts = [x[name] for name in x.dtype.names or ()] if pairs else parts_of(x)
    re, im = (t.astype(np.int16) for t in (parts[0], parts[-1]))
    im = -im if conjugate else im
    return np.array([t.re_weight * re + t.im_weight * im for t in system.planes])


def _reduce(x: Array, p: int) -> Array:
    """Return x modulo p, from -(p // 2) on; int64 wraps by itself."""
    if p == 1 << 64:
        return x
    return (x + p // 2) % p - p // 2


class ReferenceEngine(Defaults):
    """The contract, word for word."""

    name = "reference"
    family: Family = "numpy"
    measure, analyse = staticmethod(measure), analyse
    choose_exponents = staticmethod(choose_exponents)
    error_sums, octaves = staticmethod(error_sums), staticmethod(octaves)
    multiply_octaves = staticmethod(multiply_octaves)
    find_nonfinite = staticmethod(find_nonfinite)
    apply_nonfinite = staticmethod(apply_nonfinite)
    scale_and_add = staticmethod(scale_and_add)
    mirror_tile = staticmethod(mirror_tile)
    symmetrise_diagonal_tile = staticmethod(symmetrise_diagonal_tile)

    def tile_limits(
        self, system: ResidueSystem, shape: Shape, update: Update | None = None
    ) -> TileLimits:
        return host_limits(shape, update)

    def encode(
        self,
        x: Array,
        exponents: Array,
        system: ResidueSystem,
        *,
        conjugate: bool = False,
        shifts: Array | None = None,
    ) -> ReferenceEncoded:
        if system.wraps:
            return ReferenceEncoded(_planes_of_samples(x, system, conjugate))
        x = shift_columns(x, shifts)
        re, im = (np.where(np.isfinite(t), t, 0) for t in (x.real, x.imag))
        masked = np.asarray(exponents)[..., np.newaxis]
        re, im = (_QUANTISE(t, masked) for t in (re, im))
        planes = np.zeros((len(system.planes), *x.shape), dtype=np.int8)
        for index, plane in enumerate(system.planes):
            sign = -1 if conjugate else 1
            value = plane.re_weight * re + sign * plane.im_weight * im
            planes[index] = _reduce(value, plane.p)
        return ReferenceEncoded(planes)

    def multiply(
        self,
        left: ReferenceEncoded,
        right: ReferenceEncoded,
        system: ResidueSystem,
        before: Array | None = None,
        *,
        overwrite: bool = False,
        hermitian: bool = False,
        triangle: Uplo = "full",
    ) -> Array:
        """Multiply in int64 and reduce; exact for k below 2^49."""
        *stack, m, _ = left.shape
        n = right.shape[-2]
        shape = system.num_residues, *stack, m, n
        if before is not None and left.shape[-1] == 0:
            return before
        residues = np.zeros(shape, system.residue_dtype) if before is None else before
        residues = residues if overwrite else residues.copy()
        for q, product in enumerate(system.products):
            if hermitian and product.mirror is not None:
                continue
            a = left.planes[product.left].astype(np.int64)
            b = right.planes[product.right].astype(np.int64)
            total, place = a @ b.swapaxes(-1, -2), system.places[q]
            residues[place] = _reduce(residues[place] + total, product.p)
        for q, product in enumerate(system.products):
            if hermitian and (mirror := product.mirror) is not None:
                source = residues[mirror.source].astype(np.int64)
                total = mirror.straight * source
                total += mirror.transposed * source.swapaxes(-1, -2)
                if mirror.other is not None:
                    total += mirror.other_weight * residues[mirror.other]
                residues[q] = _reduce(total, product.p)
        return residues

    def add_residues(self, x: Array, y: Array, system: ResidueSystem) -> Array:
        moduli = [system.products[system.places.index(q)].p for q in range(len(x))]
        sums = zip(x.astype(np.int64), y, moduli, strict=True)
        found = [_reduce(r + s, p) for r, s, p in sums]
        return np.array(found, x.dtype).reshape(x.shape)

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
        """Reconstruct exactly, then follow the contract's floating-point steps."""
        rows, columns = _finite(rows), _finite(columns)
        residues = residues[..., : columns.shape[-1]]
        exponents = -(rows[..., :, np.newaxis] + columns[..., np.newaxis, :])
        e1 = np.clip(exponents, -1000, 600)
        e2 = np.maximum(exponents - e1, -1022)
        with np.errstate(under="ignore"):
            parts = [
                v * np.exp2(e1) * np.exp2(np.minimum(e2, 0))
                for v in _reconstruct(residues, system, components)
            ]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            parts = [np.ldexp(t, np.maximum(e2, 0)) for t in _times(parts, alpha)]
            if beta != 0:
                assert c is not None
                scaled = _times([t.astype(np.float64) for t in parts_of(c)], beta)
                parts = [t + s for t, s in zip(parts, scaled, strict=True)]
            if components == 2:
                parts = [_normalise(*t) for t in parts]
            if out is None:
                front = () if components == 1 else (components,)
                out = np.empty((*front, *residues.shape[1:]), dtype)
            if len(parts) == 1:
                out[...] = parts[0]
            else:
                out.real, out.imag = parts
            return make_canonical(out)


def _finite(exponents: Array) -> Array:
    exponents = np.asarray(exponents).astype(np.int64)
    return np.where(exponents >= NONFINITE_ROW, 0, exponents)


def _reconstruct(residues: Array, system: ResidueSystem, count: int) -> list[Array]:
    """Sum weighted residues to integers, and round those: steps 1 to 3."""
    sums = []
    for weights in system.weights:
        x = np.zeros(residues.shape[1:], dtype=object)
        for weight, residue in zip(weights, residues, strict=True):
            x = x + weight * residue.astype(object)
        sums.append(x)

    def each(function: Callable[[int], tuple[float, ...]], x: Array) -> Array:
        return np.array([function(t) for t in x.flat]).T.reshape(count, *x.shape)

    m = system.modulus_product
    return [
        each(lambda t: _round(symmetric_residue(t, m), system, count), x) for x in sums
    ]


def _round(x: int, system: ResidueSystem, components: int) -> tuple[float, ...]:
    """Sum the balanced digits of |x| from the least, rounding each time."""
    sign = 1 if x >= 0 else -1
    digits = system.digits(abs(x))
    v, low = float(digits[0]), 0.0
    for t, digit in enumerate(digits[1:], start=1):
        term = digit * 2.0 ** (t * system.digit_bits)
        total = term + v
        if components == 2:
            low += float(Fraction(term) + Fraction(v) - Fraction(total))
        v = total
    return (sign * v, sign * low)[:components]


def _normalise(high: Array, low: Array) -> Array:
    total = high + low
    return np.stack([total, np.where(np.isfinite(total), low - (total - high), 0)])


def _times(parts: list[Array], factor: complex) -> list[Array]:
    """Multiply by a scalar as BLAS users expect: 1 never touches Inf or NaN."""
    if factor == 1:
        return parts
    re, im = complex(factor).real, complex(factor).imag
    if im == 0:
        return [re * t for t in parts]
    x, y = parts
    return [re * x - im * y, re * y + im * x]


def make_engine() -> ReferenceEngine:
    """Make the engine; nothing to load."""
    return ReferenceEngine()
