"""Every module compiles for every architecture, without a device."""

import re
from collections import Counter
from typing import Any

import pytest

from tests.support.cuda.machine_code import assert_few_doubles
from tests.support.cuda.nvrtc import (
    MAIN,
    PRECISIONS,
    assert_fits,
    compile_as_cupy,
    compile_side_by_side,
    modules_of_integer_sums,
    modules_of_tables,
    usual_modules,
)
from twom_dist.kernels.cuda.sources import (
    FAMILIES,
    HOPPER_FAMILIES,
    Module,
    module_for,
)
from twom_dist.kernels.cuda.tuning import BY_CAPABILITY
from twom_dist.moduli import available_moduli, residue_system

OTHERS = ("sm_75", "sm_120")

METHODS = ("2m", "3m", "4m", "hybrid", "eisenstein", "real")

# Those that are looked at.
SYSTEMS = (
    *(("2m", 8), ("2m", 16), ("2m", 22), ("3m", 15), ("hybrid", 30)),
    *(("eisenstein", 16), ("real", 14)),
)


def every_module() -> list[Module]:
    """Those, and of double precision all others that differ in more than the moduli.

    Of systems whose modules have the same macros, the one with the most products; of
    `SYSTEMS` alone what takes long: two words, which more or less double the code, and
    scale_and_encode, which has that of encode in its midst.
    """
    largest: dict[tuple[Any, ...], Module] = {}
    for method in METHODS:
        for count in range(1, len(available_moduli(method)) + 1):
            encode, _, decode, *_ = modules_of_tables(method, count)
            for module in (encode, decode):
                key = module.family, module.macros
                other = largest.get(key, module)
                if module.system.num_products >= other.system.num_products:
                    largest[key] = module
    usual = [m for choice in SYSTEMS for m in modules_of_tables(*choice)]
    usual.append(module_for("winograd", levels=2))
    return list(dict.fromkeys([*usual_modules(*PRECISIONS), *usual, *largest.values()]))


@pytest.mark.parametrize("family", FAMILIES)
def test_modules_compile_and_fit(kept, family):
    modules = [m for m in every_module() if m.family == family]
    reports = compile_side_by_side(kept, [(m, MAIN) for m in modules])
    for module, report in zip(modules, reports, strict=True):
        assert_fits(report, module)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in HOPPER_FAMILIES])
def test_modules_compile_for_other_architectures(kept, family):
    # Other dtypes take less of what each has; what hexagons add is arithmetic alone.
    module = module_for(family, "complex128", residue_system("2m", 16))
    compile_side_by_side(kept, [(module, x) for x in OTHERS])


@pytest.mark.parametrize("architecture", ["sm_80", "sm_100"])
def test_what_reads_tables_fits_other_architectures(kept, architecture):
    # Of the default and of the most words; MAIN has all others.
    choices = ("2m", 16), ("hybrid", 30)
    modules = [m for choice in choices for m in modules_of_tables(*choice)]
    reports = compile_side_by_side(kept, [(m, architecture) for m in modules])
    for module, report in zip(modules, reports, strict=True):
        assert_fits(report, module)


@pytest.mark.parametrize("choice", [("2m", 16), ("hybrid", 30), ("real", 14)])
def test_no_table_is_loaded(kept, choice):
    """Of memory that is not written to, the operand and the residues alone."""
    for module in [*modules_of_tables(*choice), *modules_of_integer_sums(*choice)]:
        code = compile_as_cupy(kept, module)
        loads = Counter(re.findall(r"^\s*ld\.([a-z]+(?:\.nc)?)", code, re.MULTILINE))
        # Four neighbours a thread; a load a product.
        needed = {"encode": 4, "decode": module.system.num_products}
        kinds = {"param", "global", "global.nc"}
        if module.family in needed:
            assert loads["global.nc"] == needed[module.family]
        elif module.family == "decode_and_close":
            kinds |= {"u", "shared"}  # marks, and residues in memory of any kind
        else:
            # One pass, which is unrolled twice; and the shifts.
            each = 8 if "SHIFTED" in dict(module.macros) else 4
            assert loads["global.nc"] <= each * 3
            kinds |= {"shared"}
        assert set(loads) <= kinds


@pytest.mark.parametrize(
    "capability", [c for c, own in BY_CAPABILITY.items() if own.integer_sums]
)
def test_sums_of_integers_fit_and_take_few_doubles(kept, capability):
    choices = SYSTEMS if capability in (75, 103) else (("2m", 16),)
    modules = [m for choice in choices for m in modules_of_integer_sums(*choice)]
    architecture = f"sm_{capability}"
    reports = compile_side_by_side(kept, [(m, architecture) for m in modules])
    for module, report in zip(modules, reports, strict=True):
        assert_fits(report, module)
        if not module.system.hexagonal:
            assert_few_doubles(kept, module, architecture)
