"""A tensor network, contracted along the path that cotengra finds.

cotengra chooses the path; `td.einsum` and `td.tensordot` multiply: natively where that
is faster on this machine, and through int8 elsewhere.
"""

import cotengra
import numpy as np

import twom_dist as td

# A closed chain of 12 tensors, with bonds of 8.
LENGTH, BOND, PHYSICAL = 12, 8, 2

rng = np.random.default_rng(2)
bonds = [chr(ord("a") + i) for i in range(LENGTH)]
legs = [chr(ord("A") + i) for i in range(LENGTH)]
shape = BOND, PHYSICAL, BOND
tensors = [
    (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / BOND
    for _ in range(LENGTH)
]
kets = [bonds[i - 1] + legs[i] + bonds[i] for i in range(LENGTH)]
bras = [bonds[i - 1].lower() + legs[i] + bonds[i] for i in range(LENGTH)]
# The bonds of the conjugate are letters of their own.
renamed = str.maketrans({x: chr(ord("m") + i) for i, x in enumerate(bonds)})
terms = [*kets, *(term.translate(renamed) for term in bras)]
operands = [*tensors, *(x.conj() for x in tensors)]

expression = ",".join(terms) + "->"
implementation = td.einsum, td.tensordot
norm = cotengra.einsum(expression, *operands, implementation=implementation)
print(f"the squared norm of the state: {norm.real:.3e}")

expected = cotengra.einsum(expression, *operands)
assert abs(norm - expected) < 1e-12 * abs(expected)
assert abs(norm.imag) < 1e-12 * abs(norm)
