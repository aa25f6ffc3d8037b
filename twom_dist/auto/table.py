"""Sizes that come with the package: measured on some chips, computed for the others."""

from typing import NamedTuple

from .chips import Chip


class Crossover(NamedTuple):
    """The `mean_side` from which on int8 is faster, and where that is known from."""

    size: float
    source: str


_VNNI = "AMD EPYC of family 26, 2 cores, crossover-cpu-zen5.jsonl"
_AMX = "Intel Xeon with AMX, 2 cores, gemm-cpu-amx.jsonl"
_H200 = "NVIDIA H200, gpu.jsonl"
_COMPUTED = "computed for compute capability {}, not measured"

# The default accuracy against NumPy's and CuPy's products, by routine and dtype.
# Missing entries were not measured to be faster on all chips, at any size.
# VNNI: gemm of complex128 0.40, 0.88, 1.01, 0.96 times as fast as NumPy, n = 512, 1024,
#      2048, 4096; herk 0.86, 1.30, 1.82, 1.94, n = 512, 768, 1024, 2048 (natively 0.94,
#      1.10, 1.33, 1.37); herk of complex64 1.46 at 1024; all else at most 0.8. By an
#      earlier engine a Xeon had 1.05 for both at 1024 (crossover-cpu-xeon.jsonl).
_OF_VNNI = {("herk", "complex128"): 1024.0, ("herk", "complex64"): 1024.0}
# AMX: gemm of complex128 0.8 to 1.15 at 1024, 1.2 to 1.9 at 2048, 1.3 to 2.1 at 4096 on
#      machines that others use, too. No other dtype was measured. Where Linux refuses
#      tiles, VNNI multiplies, and NumPy would be as fast or faster.
_OF_AMX = _OF_VNNI | {("gemm", "complex128"): 2048.0}
# H200: gemm 0.19, 0.66, 1.17, 1.82, n = 1024, 2048, 3000, 4096; herk with 16 moduli
#      0.84, 2.08, 2.65, 3.84; the default takes 2.2 times as long as these at 2048 and
#      1.56 times at 3000. Other dtypes were measured at 8192 alone: 5.7 (complex64),
#      1.27 (float64), 2.5.
_OF_H200 = {"complex128": 3000.0}
_OTHER_DTYPES = 8192.0
# By compute capability, others as the newest one that is not newer. Computed: products
# of 8 n^3 operations by cuBLAS, against 1.5 ms of the default's own for launches and
# waits and 15 moduli at the int8 rate. A multiprocessor of 75, 86, 89, 103 and 120 has
# 2 double units: 0.5 to 1.5 TFLOP/s, which int8 outruns for n >= 600 (900 for float64,
# a quarter of the native work); 80 and 100 have 20 and 40 TFLOP/s, and the int8 rate of
# an H100 and more: n = 2400.
_FEW_DOUBLES = {"complex128": 600.0, "float64": 900.0}
_MANY_DOUBLES = {"complex128": 2400.0}
_OF_GPUS = {
    75: _FEW_DOUBLES,
    80: _MANY_DOUBLES,
    86: _FEW_DOUBLES,
    89: _FEW_DOUBLES,
    90: _OF_H200,
    100: _MANY_DOUBLES,
    103: _FEW_DOUBLES,
    120: _FEW_DOUBLES,
}


def look_up(chip: Chip, routine: str, dtype: str) -> Crossover | None:
    """Find what the package knows of a kind of chip; None where int8 is not faster.

    >>> look_up(Chip("NVIDIA GeForce RTX 4090", 89), "gemm", "complex128").size
    600.0
    """
    if not chip.capability:
        # Without VNNI int8 products took 1.5 to 13 times as long as NumPy's at all
        # sizes measured, 512 to 1536 (AMD EPYC of family 25; crossover-cpu-zen3.jsonl).
        sizes = _OF_AMX if chip.amx else _OF_VNNI if chip.vnni else {}
        size, source = sizes.get((routine, dtype)), _AMX if chip.amx else _VNNI
        return None if size is None else Crossover(size, source)
    known = max((x for x in _OF_GPUS if x <= chip.capability), default=min(_OF_GPUS))
    size = _OF_GPUS[known].get(dtype, _OTHER_DTYPES)
    capability = f"{chip.capability // 10}.{chip.capability % 10}"
    source = _H200 if known == 90 else _COMPUTED.format(capability)
    return Crossover(size, source)
