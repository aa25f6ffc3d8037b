"""The usual modules compile, without a device, for Hopper.

Every kernel may be launched before the grid ahead has ended: it waits before all else.
"""

import re

import pytest

from tests.support.cases import cases
from tests.support.cuda import nvrtc
from tests.support.cuda.tile_ir import MODULES, export
from twom_dist.kernels.cuda.sources import (
    FAMILIES,
    SHIFTED_FAMILIES,
    module_for,
    tile_ir,
)
from twom_dist.moduli import residue_system

# What flushes a subnormal float, of which no bit may be lost.
_FLUSHING = re.compile(
    r"^\s*((?:cvt|setp|add|sub|mul|fma|neg|abs|min|max)\S*\.ftz\S*)", re.MULTILINE
)
# Of integers: below 2^14, and sums below 2^24.
_HARMLESS = {"cvt.rzi.ftz.u32.f32", "cvt.rni.ftz.s32.f32"}


# What a kernel does before it waits, in PTX: of memory it may read parameters.
_HEAD = re.compile(r"\.entry[^{]*\{(.*?)griddepcontrol\.wait;", re.DOTALL)
_USES = re.compile(
    r"\b(?:(?:ld|ldu|st|atom|red|cp|prefetch|multimem)\.(?!param)|bra|call|ret|exit)"
)
_LATE = """extern "C" __global__ void late(int* x) {{
  {} asm volatile("griddepcontrol.wait;" ::: "memory"); *x = 1;
}}"""
_NEVER = 'extern "C" __global__ void never(int* x) { *x = 1; }'


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
        ptx = nvrtc.compile_as_cupy(kept, module)
        assert set(_FLUSHING.findall(ptx)) <= _HARMLESS
        heads = _HEAD.findall(ptx)
        assert len(heads) == ptx.count(".entry")
        assert not any(map(_USES.search, heads))


@pytest.mark.parametrize(
    ("before", "right"),
    [("", True), ("x += *x;", False), ("if (!x) return;", False)],
)
def test_a_late_wait_is_found(before, right):
    code = nvrtc.compile_text(_LATE.format(before))
    assert nvrtc.waits_first(code) == right
    assert not nvrtc.waits_first(nvrtc.compile_text(_NEVER))


@cases("module", MODULES)
def test_the_package_has_tile_ir_of_13_3(module):
    code = tile_ir(module)
    assert code[:10] == b"\x7fTileIR\0\x0d\x03"
    assert module.family.encode() in code


def test_what_is_committed_is_what_the_source_gives():
    pytest.importorskip("cuda.tile", reason="cuTile: pip install '.[tiles]'")
    for module in MODULES:
        assert export(module) == tile_ir(module)
