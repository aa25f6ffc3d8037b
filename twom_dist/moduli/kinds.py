"""Kinds of moduli: planes, products, weights, and products that X X^H saves.

See P. Caday, "The 2M Multiplication Algorithm for Complex Matrices", section 2.
"""

from dataclasses import dataclass

from ..errors import AccuracyError
from .crt import root_of_minus_one, symmetric_residue


@dataclass(frozen=True)
class Plane:
    """One encoded int8 matrix: ``re_weight Re + im_weight Im (mod p)``."""

    p: int
    re_weight: int
    im_weight: int


@dataclass(frozen=True)
class Mirror:
    """A rule by which a product of ``X X^H`` follows from others of its modulus.

    ``straight R + transposed R^T + other_weight S  (mod p)`` with R the product
    `source` and S the product `other`; the weights are symmetric residues.
    """

    source: int
    straight: int
    transposed: int
    other: int | None = None
    other_weight: int = 0


@dataclass(frozen=True)
class Kind:
    """One modulus: planes, pairs of planes, post step, and mirrors for X X^H.

    Indices of products and planes count within the modulus.
    """

    planes: list[Plane]
    pairs: list[tuple[int, int]]
    post: list[list[int]]
    mirrors: dict[int, Mirror]


def _two_m(p: int) -> Kind:
    """C± = A± B±;  Re = 2^-1 (C- + C+),  Im = s 2^-1 (C- - C+).

    In X X^H: C- = C+^T.
    """
    s = root_of_minus_one(p)
    if s is None:
        problem = f"{p} is not a 2M modulus: -1 has no square root modulo {p}"
        raise AccuracyError(problem, "Use it as a 3M modulus", "modulus")
    half = (p + 1) // 2
    planes = [Plane(p, 1, s), Plane(p, 1, -s)]
    post = [[half, half], [-s * half, s * half]]
    return Kind(planes, [(0, 0), (1, 1)], post, {1: Mirror(0, 0, 1)})


def _three_m(p: int) -> Kind:
    """T1 = Ar Br, T2 = Ai Bi, T3 = (Ar+Ai)(Br+Bi); Re = T1-T2, Im = T3-T1-T2.

    In X X^H: T1 = 2^-1 (T3 + T3^T) - T2, for odd p.
    """
    planes = [Plane(p, 1, 0), Plane(p, 0, 1), Plane(p, 1, 1)]
    half = symmetric_residue((p + 1) // 2, p)
    mirrors = {0: Mirror(2, half, half, 1, -1)} if p % 2 else {}
    post = [[1, -1, 0], [-1, -1, 1]]
    return Kind(planes, [(0, 0), (1, 1), (2, 2)], post, mirrors)


def _four_m(p: int) -> Kind:
    """T1 = Ar Br, T2 = Ai Bi, T3 = Ar Bi, T4 = Ai Br; Re = T1-T2, Im = T3+T4.

    In X X^H: T4 = -T3^T.
    """
    planes = [Plane(p, 1, 0), Plane(p, 0, 1)]
    pairs = [(0, 0), (1, 1), (0, 1), (1, 0)]
    post = [[1, -1, 0, 0], [0, 0, 1, 1]]
    return Kind(planes, pairs, post, {3: Mirror(2, 0, -1)})


def _words(p: int) -> Kind:
    """Re = Ar Br + Ai (-Bi), Im = Ar Bi + Ai Br, each the sum of two products.

    For p = 2^32 or 2^64: the planes are bytes as they are stored, the third one read
    with the other sign, and sums of words are residues as they wrap. In X X^H nothing
    follows from other products, but a triangle of each is all that is needed.
    """
    planes = [Plane(p, 1, 0), Plane(p, 0, 1), Plane(p, 0, -1)]
    pairs = [(0, 0), (1, 2), (0, 1), (1, 0)]
    return Kind(planes, pairs, [[1, 0], [0, 1]], {})


KINDS = {
    "real": lambda p: Kind([Plane(p, 1, 0)], [(0, 0)], [[1]], {}),
    "words": _words,
    "2m": _two_m,
    "3m": _three_m,
    "4m": _four_m,
}
