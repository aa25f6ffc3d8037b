"""Octaves of entries below the largest of their rows: what all engines share of them.

An entry in octave o of a row whose largest exponent is e has a part of at least
``2^(e - 1 - o)``. Octaves are 0 to 62, so that two of them add to less than `FAR`; and
that of two bytes fits a byte, whatever they say.
"""

# Octaves below the largest from which an entry is only known to be there.
FURTHEST = 63
# An entry that is not 0, but 63 octaves or more below the largest.
FAR = 126
# An entry that is 0, or any in a row without a largest, or that is not finite.
NONE = 127
# What is counted: the entries of a row down to each of these octaves, and all others.
COUNTED = (*range(16), 21, 27, 33, 39, 45, 51, 57, 62, FAR)
