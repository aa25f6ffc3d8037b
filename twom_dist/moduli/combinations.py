"""Small integers for the residues of a modulus: one for each part, with one weight.

``part = sum_q weight[q] residue[q]  (mod M)`` has fewer terms if each modulus gives but
one: a weight times a sum or difference of residues, at most 3 * 128 in magnitude.
"""

from functools import cache

from .crt import symmetric_residue
from .system import ResidueSystem

# Kinds whose planes and products have the form of another.
_ALIKE = {"eisenstein": "2m"}
# Form -> coefficients of its products in the integer of each part.
_COEFFICIENTS = {
    "2m": ((1, 1), (-1, 1)),
    "3m": ((1, -1, 0), (-1, -1, 1)),
    "4m": ((1, -1, 0, 0), (0, 0, 1, 1)),
    "real": ((1,),),
}
# The weight of a part is that of the product named here, whose coefficient is 1.
_PIVOTS = {"2m": (0, 1), "3m": (0, 2), "4m": (0, 2), "real": (0,)}


def form_of(kind: str) -> str:
    """Name the kind whose planes and products have the same form."""
    return _ALIKE.get(kind, kind)


@cache
def combined_weights(system: ResidueSystem) -> tuple[tuple[int, ...], ...]:
    """Find weights[modulus][part] of the combinations, modulo M, symmetric."""
    m, first, weights = system.modulus_product, 0, []
    for form in map(form_of, system.kinds):
        rows, own = _COEFFICIENTS[form], []
        for given, row, pivot in zip(system.weights, rows, _PIVOTS[form], strict=True):
            weight = given[first + pivot]
            for q, coefficient in enumerate(row):
                assert (given[first + q] - coefficient * weight) % m == 0
            own.append(symmetric_residue(weight, m))
        weights.append(tuple(own))
        first += len(rows[0])
    return tuple(weights)
