"""Every module compiles for every architecture, without a device."""

import pytest

from tests.support.cuda import nvrtc
from twom_dist.kernels.cuda.sources import HOPPER_FAMILIES
from twom_dist.kernels.cuda.tuning import BY_CAPABILITY
from twom_dist.moduli import available_moduli

METHODS = ("2m", "3m", "4m", "hybrid", "real")
# Those that are looked at.
SYSTEMS = (
    *(("2m", 8), ("2m", 16), ("2m", 22), ("3m", 15), ("hybrid", 30)),
    ("real", 14),
)


def every_module():
    """Those, and of double precision all others that differ in more than the moduli.

    Of systems whose modules have the same macros, the one with the most products; of
    `SYSTEMS` alone what takes long: two components, which more or less double the code,
    and scale_and_encode, which has that of encode in its midst.
    """
    largest = {}
    for method in METHODS:
        for count in range(1, len(available_moduli(method)) + 1):
            encode, _, decode, *_ = nvrtc.modules_of_tables(method, count)
            for module in (encode, decode):
                key = module.family, module.macros
                other = largest.get(key, module)
                if module.system.num_products >= other.system.num_products:
                    largest[key] = module
    usual = [m for choice in SYSTEMS for m in nvrtc.modules_of_tables(*choice)]
    return list(
        dict.fromkeys(
            [*nvrtc.usual_modules(*nvrtc.PRECISIONS), *usual, *largest.values()]
        )
    )


@pytest.mark.parametrize("capability", BY_CAPABILITY)
def test_modules_compile(kept, capability):
    """Those of a default for all; other dtypes add arithmetic alone."""
    if f"sm_{capability}" == nvrtc.MAIN:
        nvrtc.compile_modules(kept, every_module())
        return
    modules = [
        *nvrtc.usual_modules("complex128"),
        *nvrtc.modules_of_tables("hybrid", 30),
    ]
    if BY_CAPABILITY[capability].integer_sums:
        for choice in SYSTEMS if capability in (75, 103) else (("2m", 16),):
            modules += nvrtc.modules_of_integer_sums(*choice)
    modules = [m for m in dict.fromkeys(modules) if m.family not in HOPPER_FAMILIES]
    nvrtc.compile_modules(kept, modules, f"sm_{capability}")
