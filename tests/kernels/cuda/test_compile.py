"""Every module compiles for every architecture, without a device."""

import io
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from tests.kernels.cuda.kept import Kept
from twom_dist.kernels.cuda.sources import (
    FAMILIES,
    HOPPER_FAMILIES,
    INTEGER_FAMILIES,
    Module,
    kernel_names,
    module_for,
    source_of,
)
from twom_dist.moduli import available_moduli, residue_system

try:
    from cuda.bindings import nvrtc
    from cuda.core import Program, ProgramOptions
except ImportError as error:
    # Packages of the test extra, which there are for Linux on x86-64 alone.
    pytest.skip(
        f"{error}: pip install cuda-core[cu13] nvidia-cuda-nvrtc compiles the kernels",
        allow_module_level=True,
    )

NVRTC_VERSION = repr(nvrtc.nvrtcVersion())
ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
# The architecture whose every module is compiled; the others take the usual ones.
MAIN = "sm_90"
METHODS = {"complex": ("2m", "3m", "4m", "hybrid", "eisenstein"), "float": ("real",)}
PRECISIONS = {"complex64": 8, "complex128": 16, "float32": 8, "float64": 15}


def compile_module(kept: Kept, module: Module, architecture: str) -> str:
    """Compile to machine code and return the assembler's report."""
    if module.family in HOPPER_FAMILIES:
        architecture = "sm_90a"
    text = source_of(module)
    options = ProgramOptions(
        std="c++17",
        arch=architecture,
        define_macro=list(module.macros) or None,
        ptxas_options="-v",
    )

    def make(path: Path) -> None:
        log = io.StringIO()
        code = Program(text, "c++", options).compile("cubin", logs=log)
        assert len(code.code) > 0
        path.write_text(log.getvalue())

    parts = (NVRTC_VERSION, architecture, *module.options, text)
    return kept.get(".report", parts, make).read_text()


def compile_side_by_side(kept: Kept, jobs: Iterable[tuple[Module, str]]) -> list[str]:
    """Compile modules for architectures, on all cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda job: compile_module(kept, *job), jobs))


def usual_modules() -> list[Module]:
    """The modules of the default precision of every dtype."""
    modules = []
    for dtype, count in PRECISIONS.items():
        method = "2m" if dtype.startswith("complex") else "real"
        system = residue_system(method, count)
        modules += [module_for(family, dtype, system) for family in FAMILIES]
    return list(dict.fromkeys(modules))


def every_module() -> list[Module]:
    """Those, and of double precision every one: those of floats differ little."""
    modules = usual_modules()
    for dtype in ("complex128", "float64"):
        for method in METHODS[dtype.rstrip("0123456789")]:
            for count in range(1, len(available_moduli(method)) + 1):
                system = residue_system(method, count)
                modules += [module_for(f, dtype, system) for f in ("encode", "decode")]
                modules.append(module_for("decode", dtype, system, words=2))
    return list(dict.fromkeys(modules))


def assert_fits(report: str, module: Module) -> None:
    """No spills, and room for two blocks of 256 threads in 65536 registers.

    Or for one block, with the tensor cores at work all the time.
    """
    report = f"{module.macros}: {report}"
    kernels = re.findall(r"Compiling entry function '(\w+)'", report)
    assert sorted(kernels) == sorted(kernel_names(module.family))
    spilled = re.findall(r"(\d+) bytes spill stores", report)
    assert len(spilled) == len(kernels)
    assert not any(map(int, spilled)), report
    registers = [int(t) for t in re.findall(r"Used (\d+) registers", report)]
    if module.family in HOPPER_FAMILIES:
        assert "Performance Loss" not in report, report
        assert max(registers) <= 168
    else:
        assert max(registers) <= 128, report


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_modules_compile_and_fit(kept, family):
    modules = [m for m in every_module() if m.family == family]
    reports = compile_side_by_side(kept, [(m, MAIN) for m in modules])
    for module, report in zip(modules, reports, strict=True):
        assert_fits(report, module)


@pytest.mark.slow
@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in HOPPER_FAMILIES])
def test_modules_compile_for_every_architecture(kept, family):
    # The text is the same for all; other dtypes take less of what each has.
    systems = (residue_system(method, 16) for method in ("2m", "eisenstein"))
    modules = {module_for(family, "complex128", system) for system in systems}
    compile_side_by_side(kept, product(modules, ARCHITECTURES))


def test_every_kernel_belongs_to_one_family():
    names = [name for family in FAMILIES for name in kernel_names(family)]
    assert len(set(names)) == len(names)
    system = residue_system("real", 1)
    plain = {f for f in FAMILIES if not module_for(f, "float32", system).macros}
    assert plain == set(INTEGER_FAMILIES)


# What flushes a subnormal float, of which no bit may be lost.
_FLUSHING = re.compile(
    r"^\s*((?:cvt|setp|add|sub|mul|fma|neg|abs|min|max)\S*\.ftz\S*)", re.MULTILINE
)
# Of integers below 2^14.
_HARMLESS = {"cvt.rzi.ftz.u32.f32"}


def compile_as_cupy(kept: Kept, module: Module) -> str:
    """Compile to PTX with the flag that CuPy appends (cupy/cupy#9576)."""
    hopper = module.family in HOPPER_FAMILIES
    architecture = "-arch=compute_90a" if hopper else "-arch=compute_90"
    options = ["--std=c++17", architecture, *module.options, "-ftz=true"]
    source = source_of(module)

    def make(path: Path) -> None:
        given = [option.encode() for option in options]
        _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"", 0, [], [])
        (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
        _, size = nvrtc.nvrtcGetPTXSize(program)
        text = bytearray(size)
        nvrtc.nvrtcGetPTX(program, text)
        nvrtc.nvrtcDestroyProgram(program)
        path.write_bytes(text)

    return kept.get(".ptx", (NVRTC_VERSION, *options, source), make).read_text()


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("float32", "real"), ("complex64", "2m"), ("complex64", "eisenstein")],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_subnormal_floats_survive_flushing_to_zero(kept, family, dtype, kind):
    module = module_for(family, dtype, residue_system(kind, PRECISIONS[dtype]))
    assert set(_FLUSHING.findall(compile_as_cupy(kept, module))) <= _HARMLESS
