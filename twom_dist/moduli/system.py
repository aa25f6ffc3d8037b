"""Residue systems: what to encode, what to multiply, how to reconstruct.

Every method consists of the same three linear steps, so kernels, graphs and plans
never ask which method runs:

* encode: plane ``x = re_weight Re + im_weight Im  (mod p)``, int8;
* multiply: product ``q = left plane @ right plane  (mod p)``;
* decode: part (real, imaginary) ``= sum_q weight[q] * residue[q]  (mod M)``.

References
----------
.. [1] P. Caday, "The 2M Multiplication Algorithm for Complex Matrices", section 2.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import isqrt, log2, prod

from ..errors import AccuracyError
from .crt import balanced_digits, crt_weights, symmetric_residue
from .kinds import KINDS, Mirror, Plane
from .selection import hybrid_moduli, real_moduli, two_m_moduli

METHODS = ("2m", "3m", "4m", "hybrid")

# Moduli of samples of 8 bits: sums of their products are residues as int32 has them, or
# int64 where they are long, with nothing to encode, to reduce or to reconstruct.
_WORDS = 1 << 32, 1 << 64

# With b digit bits and Q <= 2^c products: |sum_q digit residue| <= 2^(c + 7 + b - 1),
# the quotient times a digit of M at most half as much. For b + c = 45 that leaves room
# for a sum of four residues in place of each, as fast matrix multiplication forms them:
# with the digits that every system has, all stay below 2^53, and every sum is exact in
# float64, in any order.
_DIGIT_AND_PRODUCT_BITS = 45


@dataclass(frozen=True)
class PlaneProduct:
    """One int8 matrix product of two planes, modulo p.

    `mirror`: the rule by which it follows from others in ``X X^H``, if one exists
    (section 5 of [1]_).
    """

    p: int
    left: int
    right: int
    mirror: Mirror | None = None


# Compared by identity, since `make_system` makes each system once: hashing all of its
# integers took a third of a small product's time.
@dataclass(frozen=True, eq=False)
class ResidueSystem:
    """The linear maps of one method with one set of moduli, in exact integers."""

    # "2m", "3m", "4m", "hybrid", "real"; of samples "int32" or "int64"
    method: str
    moduli: tuple[int, ...]  # pairwise coprime, each with one or more planes
    kinds: tuple[str, ...]  # of each modulus: a method, but "hybrid"
    planes: tuple[Plane, ...]  # encoded matrices of either operand, by moduli
    products: tuple[PlaneProduct, ...]  # int8 products, those of a modulus together
    # ``weights[part][q]``: CRT weights with the post step folded in, modulo M, in the
    # symmetric range. Two parts for complex systems, one for real.
    weights: tuple[tuple[int, ...], ...]

    @property
    def num_moduli(self) -> int:
        """Count the moduli."""
        return len(self.moduli)

    @property
    def choice(self) -> tuple[tuple[int, str], ...]:
        """The (modulus, kind) pairs; `make_system` builds the system from them."""
        return tuple(zip(self.moduli, self.kinds, strict=True))

    @property
    def num_products(self) -> int:
        """Count the int8 products of one tile product."""
        return len(self.products)

    @cached_property
    def wraps(self) -> bool:
        """True if the modulus is that of a word, and the planes are samples of 8 bits.

        These are of int8, uint8 or booleans, or pairs of them.
        """
        return self.moduli[0] in _WORDS

    @cached_property
    def residue_dtype(self) -> str:
        """The dtype of residues of products."""
        return f"i{self.moduli[0].bit_length() // 8}" if self.wraps else "i1"

    @cached_property
    def plane_bytes(self) -> int:
        """Bytes of the planes of an entry of A or B, which hold samples once."""
        return self.parts if self.wraps else len(self.planes)

    @property
    def num_residues(self) -> int:
        """Count the residues of an entry of C: of products, or of parts of words."""
        return len(self.weights[0])

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Which residue each product is added to."""
        count = self.num_products
        return tuple(q * self.num_residues // count for q in range(count))

    @cached_property
    def entry_bytes(self) -> int:
        """Bytes of the residues of an entry of C."""
        return self.num_residues * int(self.residue_dtype[1])

    @cached_property
    def num_hermitian_products(self) -> int:
        """Count the int8 products of a diagonal tile of X X^H."""
        return len(self.own_products(hermitian=True))

    @cache  # noqa: B019
    def own_products(self, hermitian: bool) -> tuple[int, ...]:
        """List the products that are multiplied: of X X^H those without a mirror."""
        given = enumerate(self.products)
        return tuple(q for q, x in given if not hermitian or x.mirror is None)

    @cached_property
    def conjugate_planes(self) -> tuple[int, ...] | None:
        """For each plane of ``conj(X)``, the index of the equal plane of X.

        None if one has no equal, such as ``Ar - Ai`` of 3M.
        """
        found = {(x.p, x.re_weight, x.im_weight): i for i, x in enumerate(self.planes)}
        wanted = [(x.p, x.re_weight, -x.im_weight) for x in self.planes]
        return tuple(found[w] for w in wanted) if found.keys() >= set(wanted) else None

    @property
    def parts(self) -> int:
        """2 for complex systems, 1 for real."""
        return len(self.weights)

    @cached_property
    def modulus_product(self) -> int:
        """M, the product of the moduli."""
        return prod(self.moduli)

    @property
    def modulus_bits(self) -> float:
        """log2 M."""
        return log2(self.modulus_product)

    @cached_property
    def capacity(self) -> int:
        """Largest |Re c|, |Im c| that decodes exactly: (M/2) (1 - 2^-19).

        The margin below (M-1)/2 keeps the quotient of the reconstruction, which is
        rounded from its two leading digits (error below 2^-20), on the right side.

        Words are not rounded: there it is M/2 - 1.
        """
        if self.wraps:
            return self.modulus_product // 2 - 1
        return self.modulus_product * ((1 << 19) - 1) >> 20

    @cached_property
    def part_bits(self) -> int:
        """Bits of an entry's largest part: rows have norms up to sqrt(capacity)."""
        return isqrt(self.capacity).bit_length()

    @cached_property
    def digit_bits(self) -> int:
        """Bits of a balanced digit such that a sum over all products is exact."""
        return _DIGIT_AND_PRODUCT_BITS - (self.num_products - 1).bit_length()

    @cached_property
    def num_digits(self) -> int:
        """Number of digits of M and of every weight."""
        return -(-(self.modulus_product.bit_length() + 1) // self.digit_bits)

    def digits(self, x: int) -> tuple[int, ...]:
        """Return the balanced digits of x, least significant first."""
        return balanced_digits(x, self.digit_bits, self.num_digits)


def _shift(mirror: Mirror | None, by: int) -> Mirror | None:
    """Add an offset to the product indices of a mirror."""
    if mirror is None:
        return None
    other = None if mirror.other is None else mirror.other + by
    return replace(mirror, source=mirror.source + by, other=other)


@cache
def available_moduli(method: str) -> tuple[tuple[int, str], ...]:
    """List (modulus, kind) in the order in which a method uses them."""
    if method == "hybrid":
        return hybrid_moduli()
    own = two_m_moduli if method == "2m" else real_moduli
    return tuple((p, method) for p in own())


@cache
def make_system(method: str, choice: tuple[tuple[int, str], ...]) -> ResidueSystem:
    """Build the residue system of chosen (modulus, kind) pairs."""
    moduli, kinds = tuple(p for p, _ in choice), {kind for _, kind in choice}
    modulus_product = prod(moduli)
    planes: list[Plane] = []
    products: list[PlaneProduct] = []
    weights: list[list[int]] = [[] for _ in range(1 if kinds == {"real"} else 2)]
    for (p, kind), crt_weight in zip(choice, crt_weights(moduli), strict=True):
        one = KINDS[kind](p)
        plane, product = len(planes), len(products)
        planes += one.planes
        products += [
            PlaneProduct(p, plane + a, plane + b, _shift(one.mirrors.get(q), product))
            for q, (a, b) in enumerate(one.pairs)
        ]
        for row, coefficients in zip(weights, one.post, strict=True):
            row += [
                symmetric_residue(crt_weight * symmetric_residue(c, p), modulus_product)
                for c in coefficients
            ]
    return ResidueSystem(
        method,
        moduli,
        tuple(kind for _, kind in choice),
        tuple(planes),
        tuple(products),
        tuple(tuple(row) for row in weights),
    )


def residue_system(method: str, num_moduli: int) -> ResidueSystem:
    """Build the residue system of a method from its first `num_moduli` moduli.

    The methods are those of `METHODS`, and "real".
    """
    choice = available_moduli(method)
    if not 1 <= num_moduli <= len(choice):
        problem = (
            f"num_moduli={num_moduli}, but method {method!r} has 1 to {len(choice)}"
        )
        raise AccuracyError(problem, "", "num-moduli")
    return make_system(method, choice[:num_moduli])


def samples_system(is_complex: bool, bound: int) -> ResidueSystem:
    """Return the system of words that hold results up to a bound."""
    word = _WORDS[bound >= _WORDS[0] // 2]
    kind = "words" if is_complex else "real"
    return make_system(f"int{word.bit_length() - 1}", ((word, kind),))


def first_system(method: str, bits: float) -> ResidueSystem | None:
    """Return the `residue_system` of the fewest moduli with M >= 2^bits, or None."""
    modulus_product = 1
    for count, (p, _) in enumerate(available_moduli(method), start=1):
        modulus_product *= p
        if log2(modulus_product) >= bits:
            return residue_system(method, count)
    return None


# Form of a kind's planes and products -> the number of these, and the one from which
# each part has its weight; of all others it is a multiple by 1, -1 or 0.
_FORMS = {"2m": (2, (0, 1)), "3m": (3, (0, 2)), "4m": (4, (0, 2)), "real": (1, (0,))}


@cache
def combined_weights(system: ResidueSystem) -> tuple[tuple[int, ...], ...]:
    """Find weights[modulus][part], each of a sum or difference of residues.

    ``part = sum_q weight[q] residue[q]  (mod M)`` has fewer terms if each modulus gives
    but one: a weight times an integer of at most 3 * 128 in magnitude.
    """
    first, found = 0, []
    for count, pivots in (_FORMS[kind] for kind in system.kinds):
        rows = zip(system.weights, pivots, strict=True)
        found.append(tuple(row[first + q] for row, q in rows))
        first += count
    return tuple(found)
