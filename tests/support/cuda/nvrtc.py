"""Compile the kernels' modules as CuPy does, and read the assembler's report."""

import io
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from twom_dist.kernels.cuda.sources import (
    FAMILIES,
    HOPPER_FAMILIES,
    SHIFTED_FAMILIES,
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


def _compile(kept, module, architecture):
    """Compile to machine code and return the assembler's report."""
    if module.family in HOPPER_FAMILIES:
        architecture = "sm_90a"
    text = source_of(module)

    def make(path):
        log = io.StringIO()
        options = ProgramOptions(
            std="c++17",
            arch=architecture,
            define_macro=list(module.macros) or None,
            ptxas_options="-v",
        )
        assert Program(text, "c++", options).compile("cubin", logs=log).code
        path.write_text(log.getvalue())

    parts = (NVRTC_VERSION, architecture, *module.options, text)
    return kept.get(".report", parts, make).read_text()


def assert_modules_fit(kept, modules, architecture=MAIN):
    """Compile for an architecture on all cores, and see that each fits."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = pool.map(lambda x: _compile(kept, x, architecture), modules)
        for module, report in zip(modules, reports, strict=True):
            _assert_fits(f"{module.macros}: {report}", module)


def usual_modules(*dtypes):
    """The modules of the default precision of dtypes."""
    modules = []
    for dtype in dtypes:
        method = "2m" if dtype.startswith("complex") else "real"
        given = dtype, residue_system(method, PRECISIONS[dtype])
        modules += [module_for(family, *given) for family in FAMILIES]
        modules += [module_for(f, *given, shifted=True) for f in SHIFTED_FAMILIES]
    return list(dict.fromkeys(modules))


def modules_of_tables(method, count):
    """What reads a residue system, in double precision."""
    given = (
        "float64" if method == "real" else "complex128",
        residue_system(method, count),
    )
    families = "encode", "scale_and_encode", "decode", "decode_and_close"
    modules = [module_for(family, *given) for family in families]
    modules.append(module_for("scale_and_encode", *given, shifted=True))
    return [*modules, module_for("decode", *given, words=2)]


def modules_of_integer_sums(method, count):
    """Decode as devices with slow doubles do, to one word and two."""
    dtype = "float64" if method == "real" else "complex128"
    given = "decode", dtype, residue_system(method, count)
    return [module_for(*given, words=words, integer=True) for words in (1, 2)]


def _assert_fits(report, module):
    """No spills, and room for two blocks of 256 threads in 65536 registers.

    Or for one block, with the tensor cores at work all the time.
    """
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
        # 49 words that a thread of winograd has asked for keep the memory busy.
        most = 176 if module.family == "winograd" else 128
        assert max(registers) <= most, report


def compile_as_cupy(kept, module):
    """Compile to PTX with the flag that CuPy appends (cupy/cupy#9576)."""
    hopper = module.family in HOPPER_FAMILIES
    architecture = "-arch=compute_90a" if hopper else "-arch=compute_90"
    options = ["--std=c++17", architecture, *module.options, "-ftz=true"]
    source = source_of(module)

    def make(path):
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
