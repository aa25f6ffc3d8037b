"""Target accuracy <-> moduli, and the error bound that a residue system guarantees."""

from functools import cache, lru_cache
from math import floor, frexp, inf, isqrt, log2, sqrt
from typing import Any, Literal

import numpy as np

from ..errors import AccuracyError, shown
from .scaling import norm_bits, scaling_rule, smallest_num_moduli
from .selection import log2_product
from .system import ResidueSystem, available_moduli, first_system, residue_system

NATIVE_METHOD: Literal["blas"] = "blas"  # the product of NumPy or CuPy
AUTO_METHOD: Literal["auto"] = "auto"  # the faster of NATIVE_METHOD and 2m: see `auto`

# Unit roundoffs of the two precisions, and of an unevaluated sum of two doubles.
SINGLE, DOUBLE, PAIR = 2.0**-24, 2.0**-53, 2.0**-106

# The accuracy that takes the moduli from the entries, for ratios to be bounded by them.
BY_ENTRIES: Literal["componentwise"] = "componentwise"
# Bits of M, so that every method and dtype has its own number of moduli. 110, 52 and
# 216: |dC_ij| <= sqrt(k) u ||a_i|| ||b_j|| for all data. 117, 60 and 223: the number
# expected before the data are known, enough for exp(phi N(0,1)) with phi <= 0.5.
NAMED_BITS = {
    BY_ENTRIES: {DOUBLE: 117, SINGLE: 60, PAIR: 223},
    "normwise": {DOUBLE: 110, SINGLE: 52, PAIR: 216},
}


@cache
def unit_roundoff(dtype: Any, components: int = 1) -> float:
    """Return u of float32 and complex64, of float64 and complex128, or of a pair."""
    if components == 2:
        return PAIR
    return SINGLE if np.dtype(dtype).char in "fF" else DOUBLE


def choose_system(
    method: str,
    dtype: Any,
    k: int,
    accuracy: str | float = BY_ENTRIES,
    components: int = 1,
) -> ResidueSystem:
    """Pick the shortest residue system of an accuracy.

    A float eps, above 0 and up to 0.5, is a normwise target:
    ``|dC_ij| <= sqrt(k) eps ||a_i|| ||b_j||``, apart from the rounding of the result.
    It takes ``log2 M >= 4 + 2 log2(1/eps)``. For a normwise accuracy the full bound is
    checked, since its round number of bits omits some terms: it takes one more modulus
    if the target times sqrt(k) is coarse, or if k is above 2^24.

    A long inner dimension k needs more moduli to have a valid scaling. For real dtypes
    every method takes one product per modulus; an accuracy that the moduli of "2m"
    cannot reach takes those of "hybrid". `components`: number of doubles in an entry.
    """
    kind, u = _kind(method, dtype), unit_roundoff(dtype, components)
    if isinstance(accuracy, str):
        bits: float = NAMED_BITS[accuracy][u]
        allowed = sqrt(k) * u if accuracy == "normwise" else inf
    else:
        bits, allowed = 4 + 2 * log2(1 / accuracy), sqrt(k) * accuracy
    system = _shortest_within(kind, bits, k, allowed)
    if system is None:
        most = log2_product(p for p, _ in available_moduli(_longest(kind)))
        problem = (
            f"accuracy={shown(accuracy)} needs {bits:.0f} bits, but all moduli for "
            f"{np.dtype(dtype)} have {most:.0f}"
        )
        raise AccuracyError(problem, "Use a larger target", "accuracy-out-of-reach")
    return _check_scaling(system, kind, k)


def _kind(method: str, dtype: Any) -> str:
    """Return the method of a dtype: that of real numbers is one whatever is asked."""
    return method if np.dtype(dtype).kind == "c" else "real"


def counted_system(method: str, dtype: Any, k: int, num_moduli: int) -> ResidueSystem:
    """Return the residue system of a given number of moduli."""
    kind = _kind(method, dtype)
    limit = len(available_moduli(kind))
    if not 1 <= num_moduli <= limit:
        most = len(available_moduli(_longest(kind)))
        raise AccuracyError(
            f"num_moduli={shown(num_moduli)}, but method {kind!r} on {np.dtype(dtype)} "
            f"has 1 to {limit}",
            f"Method {_longest(kind)!r} has up to {most}" if most > limit else "",
            "num-moduli",
        )
    return _check_scaling(residue_system(kind, num_moduli), kind, k)


def _check_scaling(system: ResidueSystem, kind: str, k: int) -> ResidueSystem:
    """Return a system that scales rows of k entries, or refuse it."""
    if scaling_rule(system, k) is None:
        least = smallest_num_moduli(kind, k, len(available_moduli(kind)))
        problem = f"rows of k={k} entries need more moduli than {system.num_moduli}"
        raise AccuracyError(problem, f"Use at least {least} moduli", "too-few-moduli")
    return system


def _longest(kind: str) -> str:
    """Return the method whose moduli continue those of another."""
    return "hybrid" if kind == "2m" else kind


def _shortest_within(
    kind: str, bits: float, k: int, allowed: float
) -> ResidueSystem | None:
    """Return the shortest system with at least `bits` bits and an allowed error."""
    for method in dict.fromkeys([kind, _longest(kind)]):
        system = first_system(method, bits)
        while system is not None and quantisation_bound(system, k) > allowed:
            system = first_system(method, system.modulus_bits + 1)
        if system is not None:
            return system
    return None


def quantisation_bound(system: ResidueSystem, k: int, rounding: Any = None) -> Any:
    """Bound the error from rounding A and B to integers, relative to the norms.

    `rounding`: the largest norm of a row's rounding errors, if that has been measured,
    or an array of such.

    R^2 is the capacity, h = sqrt(parts k)/2 the norm of a row's rounding errors, and
    d = sqrt(2k) 2^-19 (for k < 2^22) the relative excess of its summed norm. The
    exponent is the largest that fits, so ``||a|| 2^s >= (R - h) / (2 (1 + d))``, and
    each operand is off by at most ``e = 2 h (1 + d) / (R - h)`` of its norm: the
    product by at most ``2 e + e^2``.
    """
    h = sqrt(system.parts * k) / 2
    radius = float(isqrt(system.capacity))
    if radius <= h:
        return inf
    excess = sqrt(2 * k) * 2.0 ** (1 - norm_bits(k))
    e = 2 * (h if rounding is None else rounding) * (1 + excess) / (radius - h)
    return 2 * e + e * e


def componentwise_system(
    method: str, k: int, ratio: float, u: float
) -> ResidueSystem | None:
    """Return the shortest system with ``|dC_ij| <= sqrt(k) u (|A| |B|)_ij``, or None.

    `ratio`: the largest ``(||a_i|| ||b_j|| / (|A| |B|)_ij)^2``; the rounding of the
    result adds to the error. Where the moduli of "2m" end, those of "hybrid" go on.
    """
    if ratio == inf:
        return None
    allowed = sqrt(k / ratio) * u if ratio else inf
    # Rounded down to integers, so that every library's logarithm gives the same bits.
    bits = int(NAMED_BITS["normwise"][u]) + frexp(ratio)[1] - 1
    return _shortest_within(method, bits, k, allowed)


def largest_ratio(system: ResidueSystem, k: int, u: float) -> float:
    """Return a ratio, of `componentwise_system`, up to which a system suffices.

    Rounded down, so that what is at most this ratio takes this system or a shorter one.
    """
    bits = floor(system.modulus_bits) - int(NAMED_BITS["normwise"][u])
    error: float = quantisation_bound(system, k)
    found = min(2.0 ** (bits + 1), k * (u / error) ** 2)
    return found * (1 - 2.0**-40)


@lru_cache(maxsize=256)
def longest_ratio(method: str, k: int, u: float) -> float:
    """Return the `largest_ratio` of all moduli; 0 if they do for none."""
    system = residue_system(_longest(method), len(available_moduli(_longest(method))))
    return largest_ratio(system, k, u) if scaling_rule(system, k) else 0.0


@lru_cache(maxsize=256)
def fewest_systems(method: str, k: int, u: float) -> list[tuple[ResidueSystem, float]]:
    """Return the shortest system for any matrices, and the next one.

    Each with its `largest_ratio`; fewer where there are no others.
    """
    found: list[tuple[ResidueSystem, float]] = []
    system = componentwise_system(method, k, 1.0, u)
    while system is not None and len(found) < 2:
        found.append((system, largest_ratio(system, k, u)))
        bits = system.modulus_bits
        kinds = dict.fromkeys([method, _longest(method)])
        following = (first_system(kind, bits + 2.0**-20) for kind in kinds)
        system = next((x for x in following if x is not None), None)
    return found


def componentwise_bound(k: int, u: float) -> float:
    """Bound ``|C - C_exact|_ij / (|A| |B|)_ij`` for systems that suffice for the data.

    ``sqrt(k) u`` for the rounding of the operands, 2 u for that of the result.
    """
    return (sqrt(max(k, 1)) + 2) * u


def product_rounding(dtype: Any) -> float:
    """Bound the relative error of a number times an entry of this dtype, by parts.

    u times a real number; ``sqrt(5) u`` times a complex one: R. Brent, C. Percival,
    P. Zimmermann, Math. Comp. 76 (2007).
    """
    return (sqrt(5) if np.dtype(dtype).kind == "c" else 1) * unit_roundoff(dtype)


def error_bound(
    system: ResidueSystem | None, k: int, dtype: Any, components: int = 1
) -> float:
    """Bound ``|C - C_exact|_ij / (||a_i|| ||b_j||)`` for alpha = 1, beta = 0.

    This is the bound on quantisation plus ``2 u``, for a result within one unit in the
    last place. For native products (system None) it is the textbook bound for k terms.
    """
    u = unit_roundoff(dtype, components)
    if system is None:
        return (4 if np.dtype(dtype).kind == "c" else 1) * max(k, 1) * u
    return float(quantisation_bound(system, k)) + 2 * u
