"""The usual modules compile, without a device, for Hopper."""

import re

import pytest

from tests.support.cuda import nvrtc
from twom_dist.kernels.cuda.sources import FAMILIES, SHIFTED_FAMILIES, module_for
from twom_dist.moduli import residue_system

# What flushes a subnormal float, of which no bit may be lost.
_FLUSHING = re.compile(
    r"^\s*((?:cvt|setp|add|sub|mul|fma|neg|abs|min|max)\S*\.ftz\S*)", re.MULTILINE
)
# Of integers: below 2^14, and sums below 2^24.
_HARMLESS = {"cvt.rzi.ftz.u32.f32", "cvt.rni.ftz.s32.f32"}


@pytest.mark.parametrize("family", FAMILIES)
def test_modules_compile_and_keep_subnormal_floats(kept, family):
    usual = nvrtc.usual_modules("complex128")
    modules = [m for m in usual if m.family == family]
    nvrtc.compile_modules(kept, modules)
    given = family, "complex64", residue_system("2m", nvrtc.PRECISIONS["complex64"])
    if not family.startswith("samples"):
        shifts = {False, family in SHIFTED_FAMILIES}
        modules = [module_for(*given, shifted=x) for x in shifts]
    for module in modules:
        assert set(_FLUSHING.findall(nvrtc.compile_as_cupy(kept, module))) <= _HARMLESS
