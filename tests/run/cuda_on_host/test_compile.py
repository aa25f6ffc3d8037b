"""The usual modules compile, without a device: most for Hopper."""

import re

import pytest

from tests.support.cases import sample
from tests.support.cuda.machine_code import assert_few_doubles
from tests.support.cuda.nvrtc import (
    MAIN,
    PRECISIONS,
    assert_fits,
    compile_as_cupy,
    compile_side_by_side,
    modules_of_integer_sums,
    usual_modules,
)
from twom_dist.kernels.cuda.sources import (
    FAMILIES,
    INTEGER_FAMILIES,
    SHIFTED_FAMILIES,
    kernel_names,
    module_for,
)
from twom_dist.kernels.cuda.tuning import BY_CAPABILITY
from twom_dist.moduli import residue_system

# What flushes a subnormal float, of which no bit may be lost.
_FLUSHING = re.compile(
    r"^\s*((?:cvt|setp|add|sub|mul|fma|neg|abs|min|max)\S*\.ftz\S*)", re.MULTILINE
)

# Of integers: below 2^14, and sums below 2^24.
_HARMLESS = {"cvt.rzi.ftz.u32.f32", "cvt.rni.ftz.s32.f32"}


@pytest.mark.parametrize("family", FAMILIES)
def test_modules_compile_and_fit(kept, family):
    modules = [m for m in usual_modules("complex128") if m.family == family]
    reports = compile_side_by_side(kept, [(m, MAIN) for m in modules])
    for module, report in zip(modules, reports, strict=True):
        assert_fits(report, module)


@sample("side", [64, 128], [128])
def test_products_by_mma_fit_what_they_are_for(kept, side):
    module = module_for("products_mma", side=side)
    architectures = [
        f"sm_{c}" for c, own in BY_CAPABILITY.items() if "mma" in own.products
    ]
    for report in compile_side_by_side(kept, [(module, x) for x in architectures]):
        assert_fits(report, module)


def test_every_kernel_belongs_to_one_family():
    names = [name for family in FAMILIES for name in kernel_names(family)]
    assert len(set(names)) == len(names)
    system = residue_system("real", 1)
    plain = {f for f in FAMILIES if not module_for(f, "float32", system).macros}
    assert plain == set(INTEGER_FAMILIES)


@sample(
    ("dtype", "kind"),
    [("float32", "real"), ("complex64", "2m"), ("complex64", "eisenstein")],
    [("complex64", "2m")],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_subnormal_floats_survive_flushing_to_zero(kept, family, dtype, kind):
    given = family, dtype, residue_system(kind, PRECISIONS[dtype])
    for shifted in {False, family in SHIFTED_FAMILIES}:
        module = module_for(*given, shifted=shifted)
        assert set(_FLUSHING.findall(compile_as_cupy(kept, module))) <= _HARMLESS


def test_digits_of_integers_take_few_doubles(kept):
    for module in modules_of_integer_sums("2m", 16):
        assert_few_doubles(kept, module, "sm_89")
