"""Every module compiles for every architecture, without a device."""

import io
import os
import re
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.cuda.kept import Kept
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
# The architecture whose every module is compiled. Of the others the oldest and the
# newest take one of each family, and those between what they differ in.
MAIN = "sm_90"
OTHERS = ("sm_75", "sm_120")
METHODS = ("2m", "3m", "4m", "hybrid", "eisenstein", "real")
PRECISIONS = {"complex64": 8, "complex128": 16, "float32": 8, "float64": 15}
# Those that are looked at.
SYSTEMS = (
    *(("2m", 8), ("2m", 16), ("2m", 22), ("3m", 15), ("hybrid", 30)),
    *(("eisenstein", 16), ("real", 14)),
)


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
    """Those, and of double precision all others that differ in more than the moduli.

    Of systems whose modules have the same macros, the one with the most products; of
    `SYSTEMS` alone what takes long: two words, which more or less double the code, and
    scale_and_encode, which has that of encode in its midst.
    """
    largest: dict[tuple[Any, ...], Module] = {}
    for method in METHODS:
        for count in range(1, len(available_moduli(method)) + 1):
            encode, _, decode, _ = modules_of_tables(method, count)
            for module in (encode, decode):
                key = module.family, module.macros
                other = largest.get(key, module)
                if module.system.num_products >= other.system.num_products:
                    largest[key] = module
    usual = [m for choice in SYSTEMS for m in modules_of_tables(*choice)]
    usual.append(module_for("winograd", levels=2))
    return list(dict.fromkeys([*usual_modules(), *usual, *largest.values()]))


def modules_of_tables(method: str, count: int) -> list[Module]:
    """What reads a residue system, in double precision."""
    dtype = "float64" if method == "real" else "complex128"
    system = residue_system(method, count)
    families = "encode", "scale_and_encode", "decode"
    modules = [module_for(family, dtype, system) for family in families]
    return [*modules, module_for("decode", dtype, system, words=2)]


def modules_of_integer_sums(method: str, count: int) -> list[Module]:
    """Decode as devices with slow doubles do, to one word and two."""
    dtype = "float64" if method == "real" else "complex128"
    given = "decode", dtype, residue_system(method, count)
    return [module_for(*given, words=words, integer=True) for words in (1, 2)]


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
        assert max(registers) <= most_registers(module), report


def most_registers(module: Module) -> int:
    """Four blocks of those that quantise, fewer where a thread holds 40 to 48 words."""
    words = int(dict(module.macros).get("WORDS", 0))
    if module.family == "winograd":
        return 176  # 49 words that a thread has asked for keep the memory busy
    if module.family == "encode":
        return 64 if words <= 4 else 80
    return 64 if module.family == "scale_and_encode" and words <= 3 else 128


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_modules_compile_and_fit(kept, family):
    modules = [m for m in every_module() if m.family == family]
    reports = compile_side_by_side(kept, [(m, MAIN) for m in modules])
    for module, report in zip(modules, reports, strict=True):
        assert_fits(report, module)


@pytest.mark.slow
@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in HOPPER_FAMILIES])
def test_modules_compile_for_other_architectures(kept, family):
    # Other dtypes take less of what each has; what hexagons add is arithmetic alone.
    module = module_for(family, "complex128", residue_system("2m", 16))
    compile_side_by_side(kept, [(module, x) for x in OTHERS])


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_100"])
def test_what_reads_tables_fits_other_architectures(kept, architecture):
    # Of the default and of the most words; MAIN has all others.
    choices = ("2m", 16), ("hybrid", 30)
    modules = [m for choice in choices for m in modules_of_tables(*choice)]
    reports = compile_side_by_side(kept, [(m, architecture) for m in modules])
    for module, report in zip(modules, reports, strict=True):
        assert_fits(report, module)


@pytest.mark.slow
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
        else:
            # Three passes, of which the first two are unrolled twice.
            assert loads["global.nc"] <= 4 * (3 + 3 + 1)
            kinds |= {"shared"}
        assert set(loads) <= kinds


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_86", "sm_103"])
def test_sums_of_integers_fit(kept, architecture):
    choices = SYSTEMS[1::2] if architecture == "sm_103" else (("2m", 16),)
    modules = [m for choice in choices for m in modules_of_integer_sums(*choice)]
    reports = compile_side_by_side(kept, [(m, architecture) for m in modules])
    for module, report in zip(modules, reports, strict=True):
        assert_fits(report, module)


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
# Of integers: below 2^14, and sums below 2^24.
_HARMLESS = {"cvt.rzi.ftz.u32.f32", "cvt.rni.ftz.s32.f32"}


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
