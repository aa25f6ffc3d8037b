"""Compile the kernels' modules as CuPy does, and read the assembler's report."""

import io
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.cuda.kept import Kept
from twom_dist.kernels.cuda.sources import (
    FAMILIES,
    HOPPER_FAMILIES,
    SHIFTED_FAMILIES,
    Module,
    kernel_names,
    module_for,
    source_of,
)
from twom_dist.moduli import residue_system

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

PRECISIONS = {"complex64": 8, "complex128": 16, "float32": 8, "float64": 15}


def compile_text(
    text: str, module: Module, architecture: str, log: Any = None
) -> bytes:
    """Compile a text with a module's macros to machine code."""
    options = ProgramOptions(
        std="c++17",
        arch=architecture,
        define_macro=list(module.macros) or None,
        ptxas_options="-v",
    )
    code: bytes = Program(text, "c++", options).compile("cubin", logs=log).code
    assert len(code) > 0
    return code


def compile_module(kept: Kept, module: Module, architecture: str) -> str:
    """Compile to machine code and return the assembler's report."""
    if module.family in HOPPER_FAMILIES:
        architecture = "sm_90a"
    text = source_of(module)

    def make(path: Path) -> None:
        log = io.StringIO()
        compile_text(text, module, architecture, log)
        path.write_text(log.getvalue())

    parts = (NVRTC_VERSION, architecture, *module.options, text)
    return kept.get(".report", parts, make).read_text()


def compile_side_by_side(kept: Kept, jobs: Iterable[tuple[Module, str]]) -> list[str]:
    """Compile modules for architectures, on all cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda job: compile_module(kept, *job), jobs))


def usual_modules(*dtypes: str) -> list[Module]:
    """The modules of the default precision of dtypes."""
    modules = []
    for dtype in dtypes:
        count = PRECISIONS[dtype]
        method = "2m" if dtype.startswith("complex") else "real"
        system = residue_system(method, count)
        modules += [module_for(family, dtype, system) for family in FAMILIES]
        given = dtype, system
        modules += [module_for(f, *given, shifted=True) for f in SHIFTED_FAMILIES]
    return list(dict.fromkeys(modules))


def modules_of_tables(method: str, count: int) -> list[Module]:
    """What reads a residue system, in double precision."""
    dtype = "float64" if method == "real" else "complex128"
    system = residue_system(method, count)
    families = "encode", "scale_and_encode", "decode", "decode_and_close"
    modules = [module_for(family, dtype, system) for family in families]
    modules.append(module_for("scale_and_encode", dtype, system, shifted=True))
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
    elif module.family == "products_mma":
        # 86, 89 and 120 have 100 KB, of which each block takes one for itself.
        (shared,) = re.findall(r"(\d+) bytes smem", report)
        assert 2 * (int(shared) + 1024) <= 100 << 10
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
