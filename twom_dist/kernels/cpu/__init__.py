"""The embedded default: kernels that Numba compiles for the machine.

A product goes through four rooms: `look` finds exponents, norms and magnitudes,
`encode` makes planes of residues, `products` multiplies them, and `decode` makes the
tile. What lies beside them serves all four.
"""

import os

# ONNX Runtime's wheels for Linux report to Microsoft what runs, from 1.29 on, unless
# they are imported with this set (Privacy.md of that package).
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
