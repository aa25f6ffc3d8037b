"""Compile the CPU engine's kernels before many processes would, each for itself."""

import numpy as np

import twom_dist as td
from twom_dist.kernels import get_engine


def main():
    """Multiply so that every kernel is called with every type."""
    for single in (True, False):
        x = td.testing.random_matrix(70, 40, dtype="c8" if single else "c16")
        for a in (x, x.real.copy()):
            td.gemm(a, a, op_b="C", equilibrate=True)
            td.gemm(a.T, a, op_a="T", op_b="T", alpha=2, equilibrate=True)
            td.her2k(a, a, a @ a.T, beta=2) if a is x else td.syr2k(a, a)
            for axis in (0, 1):
                rows = np.stack([a * np.logspace(0, 9, 70)[:, np.newaxis]] * 3)
                rows = rows.astype(a.dtype)
                td.syrk(rows if axis else rows.swapaxes(1, 2), op="NT"[1 - axis])
                td.herk(rows) if a is x else td.syrk(rows, num_moduli=4)
        for method in ("2m", "3m", "hybrid"):
            td.gemm(x, x.T, method=method, num_moduli=9)
        if not single:
            td.twofold.gemm(x, x.T)
        get_engine("cpu").fingerprint(x)
    large = td.testing.random_matrix(300, 300)
    td.herk(large, num_moduli=4)
    td.gemm(large, large, num_moduli=4, method="3m")


if __name__ == "__main__":
    main()
